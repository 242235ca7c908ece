package llmscripted

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"
)

// maxText bounds what one template makes, in bytes.
const maxText = 4 << 20

// text is a piece of a script's text that may quote the request.
type text struct {
	plain    string
	template *template.Template // nil for plain text
}

var templatePlace = lazily(`^:(?:[0-9]+:)*\s*`)

// templateText takes out of an error what a reader of the script cannot use.
func templateText(key string, err error) string {
	s := strings.TrimPrefix(err.Error(), "template: "+key)
	s = templatePlace().ReplaceAllString(s, "")
	return key + ": " + strings.TrimPrefix(s, fmt.Sprintf("executing %q at ", key))
}

// parseText parses a template; key is where it stands, for errors.
func parseText(key, s string) (text, error) {
	if !strings.Contains(s, "{{") {
		return text{plain: s}, nil
	}
	t, err := template.New(key).Funcs((&facts{}).functions()).Parse(s)
	if err != nil {
		return text{}, errors.New(templateText(key, err))
	}
	return text{template: t}, nil
}

func (t text) render(f *facts) (string, error) {
	if t.template == nil {
		return t.plain, nil
	}
	// The functions of a template belong to it, and requests run side by side.
	own, err := t.template.Clone()
	if err != nil {
		return "", err
	}
	var out limited
	if err := own.Funcs(f.functions()).Execute(&out, nil); err != nil {
		return "", errors.New(templateText(own.Name(), err))
	}
	return out.String(), nil
}

type limited struct{ strings.Builder }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxText {
		return 0, errors.New("the text grows too long")
	}
	return l.Builder.Write(p)
}

// words cuts a text where white space begins, as models stream it; joined, the
// pieces are the text.
func words(s string) []string {
	var pieces []string
	start, space := 0, true
	for i, r := range s {
		is := unicode.IsSpace(r)
		if is && !space {
			pieces = append(pieces, s[start:i])
			start = i
		}
		space = is
	}
	if start < len(s) {
		pieces = append(pieces, s[start:])
	}
	return pieces
}

// tokens estimates how many tokens a number of characters make.
func tokens(characters int) int64 { return int64(characters+3) / 4 }

func characters(s string) int { return utf8.RuneCountInString(s) }
