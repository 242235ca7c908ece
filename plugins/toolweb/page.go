package toolweb

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"dsh/kernel"
)

// page is what there is to read at a URL.
type page struct {
	url string
	// kind is the media type, such as text/html.
	kind string
	// bytes is how many were read; cut says that there were more.
	bytes int
	cut   bool
	// title is that of a HTML document, in one line; "" for none.
	title string
	// text is Markdown where it was HTML, else as it came; valid UTF-8 either way.
	text string
}

// Media types of documents that are converted.
func isHTML(kind string) bool { return kind == "text/html" || kind == "application/xhtml+xml" }

// isText reports whether what has a media type can be read as it is.
func isText(kind string) bool {
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") {
		return true
	}
	switch strings.TrimPrefix(strings.TrimPrefix(kind, "application/"), "x-") {
	case "json", "xml", "javascript", "ecmascript", "typescript", "yaml", "toml", "ndjson", "jsonl", "jsonlines", "json-seq",
		"sh", "sql", "graphql", "tex", "rtf", "httpd-php", "www-form-urlencoded", "pem-file":
		return strings.HasPrefix(kind, "application/")
	}
	return false
}

// sniffed reports whether a media type says nothing, so that the content has to.
func sniffed(kind string) bool {
	return kind == "" || kind == "application/octet-stream" || kind == "binary/octet-stream" || kind == "application/unknown"
}

func mediaType(h http.Header) (kind string, params map[string]string) {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil && kind == "" {
		kind, _, _ = strings.Cut(h.Get("Content-Type"), ";")
	}
	return strings.ToLower(strings.TrimSpace(kind)), params
}

// readable refuses what would be read in vain.
func readable(resp *http.Response) error {
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return refuse("UNSUPPORTED_ENCODING", "the answer is compressed with %s, which was not asked for", clip(coding, 40))
	}
	if kind, _ := mediaType(resp.Header); !isHTML(kind) && !isText(kind) && !sniffed(kind) {
		return unsupported(kind)
	}
	return nil
}

func unsupported(kind string) error {
	return refuse("UNSUPPORTED_TYPE", "it is of the type %s, and only HTML and text can be read here; to use it, download it to a file", clip(kind, 80))
}

// text decodes what a server gave; kind is its media type, from the content where
// the server does not know it.
func (a *answer) text() (text, kind string, err error) {
	kind, params := mediaType(a.header)
	if sniffed(kind) && len(a.body) > 0 {
		kind, _, _ = strings.Cut(http.DetectContentType(a.body), ";")
		if kind == "application/octet-stream" || !isText(kind) {
			return "", "", unsupported(kind)
		}
	}
	body := decode(a.body, params["charset"], isHTML(kind), a.cut)
	return clean(body), kind, nil
}

// clean leaves out bytes that steer terminals and parsers and are no text, and
// makes line ends one kind.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if strings.Contains(text, "\r") {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\f':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == '\ufeff':
			return -1
		}
		return r
	}, text)
}

// page makes a page of an answer. The end of ctx is not waited for by what
// converts it: the row's owner does that.
func (w *Web) page(ctx context.Context, a *answer) (*page, error) {
	text, kind, err := a.text()
	if err != nil {
		return nil, err
	}
	p := &page{url: shown(a.url), kind: kind, bytes: len(a.body), cut: a.cut, text: text}
	if !isHTML(kind) {
		return p, nil
	}
	late := func() error {
		if err := context.Cause(ctx); err != errTimeout {
			return err
		}
		return refuse("TIMEOUT", "the page was read, but could not be made Markdown in time; it may be too large or too deep")
	}
	select {
	case w.converting <- struct{}{}:
	case <-ctx.Done():
		return nil, late()
	}
	type converted struct{ title, text string }
	done := make(chan converted, 1)
	w.owner.Go("convert a page", func(context.Context) {
		defer func() { <-w.converting }()
		var c converted
		c.title, c.text = w.markdown(text, a.url)
		done <- c
	})
	select {
	case c := <-done:
		p.title, p.text = c.title, c.text
	case <-ctx.Done():
		return nil, late()
	case <-w.owner.Context().Done():
		return nil, kernel.ErrClosed
	}
	// Markup can make more of a page than it was, by indentation for example.
	if most := 2*w.config.MaxBytes + 1<<10; len(p.text) > most {
		p.text, p.cut = strings.ToValidUTF8(p.text[:most], ""), true
	}
	return p, nil
}

// part gives a piece of a page from a place in characters on, of at most most
// bytes, and where the next one begins; next is 0 at the end. It ends with a line
// where it can. ok is false for a place behind the end.
func (p *page) part(offset, most int) (piece string, next, total int, ok bool) {
	total = utf8.RuneCountInString(p.text)
	if offset > 0 && offset >= total {
		return "", 0, total, false
	}
	rest := p.text
	for range offset {
		_, n := utf8.DecodeRuneInString(rest)
		rest = rest[n:]
	}
	if len(rest) <= most {
		return rest, 0, total, true
	}
	piece = strings.ToValidUTF8(rest[:most], "")
	if i := strings.LastIndexByte(piece, '\n'); i > most/2 {
		piece = piece[:i+1]
	}
	return piece, offset + utf8.RuneCountInString(piece), total, true
}

// head is what is known of a document from its first bytes.
func head(body []byte) []byte { return body[:min(len(body), 1024)] }

// declared finds the charset that a document names itself: in a meta element or
// an XML declaration.
func declared(body []byte) string {
	text := bytes.ToLower(head(body))
	for {
		i := bytes.IndexByte(text, '<')
		if i < 0 {
			return ""
		}
		text = text[i:]
		end := bytes.IndexByte(text, '>')
		if end < 0 {
			return ""
		}
		tag := text[:end]
		text = text[end:]
		word := []byte("charset")
		if bytes.HasPrefix(tag, []byte("<?xml")) {
			word = []byte("encoding")
		} else if !bytes.HasPrefix(tag, []byte("<meta")) {
			continue
		}
		_, value, found := bytes.Cut(tag, word)
		value = bytes.TrimLeft(value, " \t\n\r")
		if !found || !bytes.HasPrefix(value, []byte("=")) {
			continue
		}
		value = bytes.TrimLeft(value[1:], " \t\n\r\"'")
		if n := bytes.IndexAny(value, " \t\n\r\"';/?"); n >= 0 {
			value = value[:n]
		}
		return string(value)
	}
}

// resolve makes a reference absolute; "" for one that leads nowhere.
func resolve(base *url.URL, ref string) string {
	ref = strings.TrimSpace(ref)
	u, err := url.Parse(ref)
	if err != nil {
		return ""
	}
	switch strings.ToLower(u.Scheme) {
	case "", "http", "https":
		return base.ResolveReference(u).String()
	case "mailto", "tel", "ftp":
		return ref
	}
	return ""
}
