package toolweb

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"
	"runtime"
	"os"

	"dsh/kernel"
	"dsh/kernel/tool"
)

func TestHostile(t *testing.T) {
	o := kernel.NewOwner(context.Background(), "x")
	w := New(Params{Self: kernel.Instance{Owner: o, Log: slog.New(slog.DiscardHandler)}, Config: defaults(), Tools: tool.NewRegistry()})
	n := 4 << 20
	rep := func(s string) string { return strings.Repeat(s, n/len(s)) }
	at, _ := url.Parse("https://ex.org/" + strings.Repeat("a/", 500) + "x")
	only := os.Getenv("ONLY")
	for name, doc := range map[string]string{
		"plain p": rep("<p>some ordinary text with <b>bold</b> and <a href=/x>link</a></p>\n"),
		"brackets": rep("["), "stars": rep("*a "), "comments": rep("a<!---->"), "a href": rep("<a href=x>y</a>"),
		"a unclosed": rep("<a>x"), "b unclosed": rep("<b>"), "b i": rep("<b><i>x"), "fonts": rep("<font><p>"),
		"bq br": strings.Repeat("<blockquote>", 400) + rep("x<br>"), "ul br": strings.Repeat("<ul><li>", 200) + rep("x<br>"),
		"pre nested": strings.Repeat("<blockquote><ul><li>", 100) + "<pre>" + rep("\n"), "ol start": strings.Repeat("<ol start=9999999999999999><li>", 100) + rep("x<br>"),
		"table wide": "<table>" + strings.Repeat("<tr><td>x", n/20) + "<tr>" + strings.Repeat("<td>y", n/20),
		"colspan": "<table>" + rep("<tr><td colspan=99999999 rowspan=99999999>x"), "colspan50": "<table>" + rep("<tr><td colspan=50 rowspan=50>x"),
		"big cell": "<table>" + strings.Repeat("<tr><td>x", 10000) + "<tr><td>" + strings.Repeat("y", n/2),
		"nested tables": rep("<table><tr><td>"), "code": rep("<code>x</code>"), "code b": rep("<b><code>x</code></b>"), "em": rep("<em>a</em><em>b</em>"),
		"li": rep("<li>x"), "spans": rep("<span>x</span>"), "h1": rep("<h1>a</h1>"), "a h1": rep("<a href=y><h1>a</h1></a>"), "br": rep("<br>"), "entities": rep("&amp;"), "div": rep("<div>x</div>"), "attrs": "<p " + rep("a=b ") + ">", "many attr": rep("<p a=1 b=2 c=3>x"),
		"text in pre": "<pre>" + rep("x\n"), "ul": "<ul>"+rep("<li>x"), "dl": rep("<dt>x<dd>y"), "select": rep("<select><option>"), "spaces": rep("<b> </b>"), "img": rep("<img src=x>"), "plaintext": "<plaintext>" + rep("<x"), "mixed": rep("<li><b><a href=x><h2>x"), "spanspan": rep("<span>"), "empty b": rep("<b></b>"), "a in b": rep("<b><a href=x>k</a></b>"),
	} {
		if only != "" && only != name { continue }
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		s := time.Now()
		done := make(chan int, 1)
		go func() { _, text := w.markdown(doc, at); done <- len(text) }()
		select {
		case l := <-done:
			runtime.ReadMemStats(&m1)
			fmt.Printf("%-14s %8v in %9d out %10d alloc %d MB\n", name, time.Since(s).Round(time.Millisecond), len(doc), l, (m1.TotalAlloc-m0.TotalAlloc)>>20)
		case <-time.After(15 * time.Second):
			fmt.Printf("%-14s STUCK\n", name)
		}
	}
}
