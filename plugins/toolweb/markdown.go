package toolweb

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// newConverter makes what renders a tamed document. Nothing is escaped: this is
// text for a model, and snake_case is better than snake\_case.
func newConverter() *converter.Converter {
	c := converter.NewConverter(
		converter.WithEscapeMode(converter.EscapeModeDisabled),
		converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(
			commonmark.WithListEndComment(false),
			commonmark.WithLinkEmptyHrefBehavior(commonmark.LinkBehaviorSkip), commonmark.WithLinkEmptyContentBehavior(commonmark.LinkBehaviorSkip),
		), table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal))),
	)
	for _, name := range []string{"h1", "h2", "h3", "h4", "h5", "h6"} {
		c.Register.RendererFor(name, converter.TagTypeBlock, heading, converter.PriorityEarly)
	}
	return c
}

// heading renders one. That of the library counts on escaped text, and spoils or
// panics on one that ends with #.
func heading(ctx converter.Context, w converter.Writer, n *html.Node) converter.RenderStatus {
	var b strings.Builder
	ctx.RenderChildNodes(ctx, &b, n)
	if text := strings.Join(strings.Fields(b.String()), " "); text != "" {
		fmt.Fprintf(w, "\n\n%s %s\n\n", strings.Repeat("#", int(n.Data[1]-'0')), text)
	}
	return converter.RenderSuccess
}

// The library turns < and > of a text into entities; these go through it in their
// place.
const (
	less, greater = '\ue0a1', '\ue0a2'
	// codeNewline is what it keeps for itself.
	codeNewline = '\uf002'
)

// markdown converts a document whose URL is at. One that cannot be converted is
// given as its text alone.
func (w *Web) markdown(doc string, at *url.URL) (title, text string) {
	defer func() {
		if r := recover(); r != nil {
			w.log.Warn("a page cannot be converted to Markdown; its text is given", "host", at.Host, "panic", fmt.Sprint(r))
			text = plain(doc)
		}
	}()
	doc = strings.Map(func(r rune) rune {
		if r == less || r == greater || r == codeNewline {
			return '\ufffd'
		}
		return r
	}, doc)
	root, err := html.Parse(strings.NewReader(doc))
	if err != nil {
		return "", plain(doc) // it is nested too deep for the parser
	}
	t := &tamer{base: at, links: 4*len(doc) + 1<<20, hide: strings.NewReplacer("<", string(less), ">", string(greater))}
	t.node(root, 0)
	out, err := w.converter().ConvertNode(root)
	if err != nil {
		return t.title, plain(doc)
	}
	return t.title, strings.NewReplacer(string(less), "<", string(greater), ">").Replace(string(out))
}

// tamer takes out of a document what is nothing to read, and what would make a
// small document a huge text.
type tamer struct {
	base  *url.URL
	title string
	// links is how many bytes the resolving of links may still add.
	links int
	hide  *strings.Replacer
}

// Bounds of what is kept of a document's structure.
const (
	// maxNesting bounds lists and quotes in each other: each one indents all lines
	// within.
	maxNesting = 8
	// maxSpan bounds the columns and rows that a cell covers.
	maxSpan = 50
	// maxCells bounds the cells of a table, those included that fill up short rows.
	maxCells = 50_000
)

func (t *tamer) node(n *html.Node, nesting int) {
	if n.Type == html.ElementNode {
		switch n.DataAtom {
		case atom.Title:
			if t.title == "" && n.Namespace == "" && n.FirstChild != nil {
				t.title = clip(strings.Join(strings.Fields(n.FirstChild.Data), " "), 300)
			}
		case atom.Base:
			if u, err := url.Parse(resolve(t.base, attr(n, "href"))); err == nil && u.Host != "" && len(u.String()) <= maxURL {
				t.base = u
			}
		case atom.A, atom.Img:
			t.link(n)
		case atom.Ul, atom.Ol, atom.Blockquote, atom.Li:
			number(n, "start", 0, 99_999)
			if nesting++; nesting > 2*maxNesting {
				n.Data, n.DataAtom = "div", atom.Div
			}
		case atom.Table:
			tameTable(n)
		case atom.Td, atom.Th:
			number(n, "colspan", 1, maxSpan)
			number(n, "rowspan", 1, maxSpan)
		}
	}
	var text *html.Node // the one before, to be joined with those that follow
	var joined strings.Builder
	end := func() {
		if text != nil {
			text.Data = joined.String()
			text = nil
		}
		joined.Reset()
	}
	for child := n.FirstChild; child != nil; {
		next := child.NextSibling
		switch {
		case child.Type == html.CommentNode, child.Type == html.DoctypeNode, isUnreadable(child):
			n.RemoveChild(child)
		case child.Type == html.TextNode:
			joined.WriteString(t.hide.Replace(child.Data))
			if text == nil {
				text = child
			} else {
				n.RemoveChild(child)
			}
		default:
			end()
			t.node(child, nesting)
		}
		child = next
	}
	end()
}

// isUnreadable reports whether an element is no text.
func isUnreadable(n *html.Node) bool {
	if n.Type != html.ElementNode {
		return false
	}
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Svg, atom.Canvas, atom.Object,
		atom.Embed, atom.Audio, atom.Video, atom.Input, atom.Textarea, atom.Select, atom.Button, atom.Link, atom.Meta:
		return true
	case atom.Title:
		return n.Namespace != ""
	}
	return false
}

// link makes an address absolute, and drops one that is a program or the data
// itself.
func (t *tamer) link(n *html.Node) {
	for i := range n.Attr {
		a := &n.Attr[i]
		if a.Key != "href" && a.Key != "src" {
			continue
		}
		if strings.HasPrefix(a.Val, "#") {
			a.Val = "" // within the page
			continue
		}
		to := resolve(t.base, a.Val)
		if len(to) > maxURL {
			to = ""
		}
		if more := len(to) - len(a.Val); more > 0 {
			if t.links -= more; t.links < 0 {
				continue // it stays relative
			}
		}
		a.Val = to
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// number makes an attribute that lies outside of its bounds 1.
func number(n *html.Node, key string, least, most int) {
	for i := range n.Attr {
		if n.Attr[i].Key != key {
			continue
		}
		if k, err := strconv.Atoi(n.Attr[i].Val); err != nil || k < least || k > most {
			n.Attr[i].Val = "1"
		}
	}
}

// tameTable leaves a table that would have too many cells to the renderer of
// plain text.
func tameTable(n *html.Node) {
	rows, columns, spans := 0, 0, 0
	var count func(*html.Node)
	count = func(n *html.Node) {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			switch c.DataAtom {
			case atom.Table:
				continue
			case atom.Tr:
				rows++
				cells := 0
				for d := c.FirstChild; d != nil; d = d.NextSibling {
					if d.DataAtom != atom.Td && d.DataAtom != atom.Th {
						continue
					}
					cells++
					if attr(d, "colspan") != "" || attr(d, "rowspan") != "" {
						spans++
					}
				}
				columns = max(columns, cells)
			}
			count(c)
		}
	}
	count(n)
	if rows*columns+spans*maxSpan > maxCells {
		n.Attr = append(n.Attr, html.Attribute{Key: "role", Val: "presentation"})
	}
}

// plain gives the text of a document without its structure.
func plain(doc string) string {
	var b strings.Builder
	skip := atom.Atom(0)
	for z := html.NewTokenizer(strings.NewReader(doc)); ; {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return tidy(b.String())
		case html.TextToken:
			if skip == 0 {
				b.WriteString(strings.ReplaceAll(string(z.Text()), "\n", " "))
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			tag := atom.Lookup(name)
			switch {
			case skip != 0 && kind == html.EndTagToken && tag == skip:
				skip = 0
			case skip != 0:
			case kind == html.StartTagToken && (tag == atom.Script || tag == atom.Style || tag == atom.Title):
				skip = tag
			case isInline(tag):
			default:
				b.WriteByte('\n')
			}
		}
	}
}

func isInline(tag atom.Atom) bool {
	switch tag {
	case atom.A, atom.Abbr, atom.B, atom.Bdi, atom.Bdo, atom.Cite, atom.Code, atom.Em, atom.Font, atom.I, atom.Img, atom.Kbd, atom.Mark,
		atom.S, atom.Samp, atom.Small, atom.Span, atom.Strong, atom.Sub, atom.Sup, atom.Tt, atom.U, atom.Var, atom.Wbr:
		return true
	}
	return false
}

// tidy joins white space, and takes out empty lines.
func tidy(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(strings.Join(words, " "))
	}
	return b.String()
}
