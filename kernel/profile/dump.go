package profile

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Dump writes the composed profile as YAML, each value with its origin as a
// comment. A value that comes from ${env:} or ${file:} is written as the
// interpolation, never as what it stands for. The text loads again as a profile.
func (p *Profile) Dump(w io.Writer) error {
	var b bytes.Buffer
	title := "# profile " + p.Name
	if p.Summary != "" {
		title += ": " + p.Summary
	}
	fmt.Fprintln(&b, comment(title))
	for _, file := range p.Layers {
		fmt.Fprintln(&b, comment("#   "+file))
	}
	top := newMapping(Position{})
	settings := newMapping(Position{})
	for _, key := range settingKeys {
		if shown := p.Settings.shown[key]; shown.text != "" {
			settings.set(key, shown)
		}
	}
	top.set("settings", settings)
	if len(p.env.names()) > 0 {
		top.set("env", p.env)
	}
	top.set("plugins", p.rows)
	for _, key := range top.keys {
		member := *top.members[key]
		member.pos = Position{}
		dumpMember(&b, "", quoteYAML(key)+":", &member)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("dump profile %s: %w", p.Name, err)
	}
	return nil
}

// dumpMember writes what follows a key or a dash.
func dumpMember(b *bytes.Buffer, indent, lead string, v *value) {
	b.WriteString(indent + lead)
	if len(v.items) == 0 && len(v.keys) == 0 {
		b.WriteString(" " + v.source())
	}
	if v.pos != (Position{}) {
		b.WriteString(comment(" # " + v.pos.String()))
	}
	b.WriteByte('\n')
	for _, item := range v.items {
		dumpMember(b, indent+"  ", "-", item)
	}
	for _, key := range v.keys {
		dumpMember(b, indent+"  ", quoteYAML(key)+":", v.members[key])
	}
}

// source gives the YAML of a scalar or of an empty collection.
func (v *value) source() string {
	switch v.kind {
	case truth, number:
		return v.text
	case list:
		return "[]"
	case mapping:
		return "{}"
	case null:
		return "null"
	}
	if v.layer == nil {
		return quoteYAML(strings.ReplaceAll(v.text, "${", "$${"))
	}
	if v.bare && strings.Contains(v.raw, "${") && !strings.Contains(v.raw, "\n") {
		return v.raw // it was bare, so that its value is typed again
	}
	return quoteYAML(v.raw)
}

// comment keeps a comment on its line.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

var plainForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_/.][A-Za-z0-9_/.@+-]*( [A-Za-z0-9_/.@+-]+)*$`)
})

// quoteYAML writes text so that every YAML reader takes it for text, those of
// YAML 1.1 too.
func quoteYAML(s string) string {
	k, _, _, ok := scalar(s)
	older := slices.Contains([]string{"y", "n", "yes", "no", "on", "off"}, strings.ToLower(s))
	if k == text && ok && !older && plainForm().MatchString(s) {
		return s
	}
	return strconv.Quote(s) // its escapes are all known to YAML
}
