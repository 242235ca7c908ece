package toolweb

import (
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMarkdown(t *testing.T) {
	x := setUp(t, claude())
	at, err := url.Parse("https://ex.test/dir/page?x=y")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, doc, want string }{
		{"paragraphs", "<p>a<p>b<br>c", "a\n\nb  \nc"},
		{"headings", "<h1>One</h1><h3>a <em>b</em>\nc</h3><h2></h2>", "# One\n\n### a *b* c"},
		{"headings that end with a pound sign", "<h1>#</h1><h2>C#</h2>", "# #\n\n## C#"},
		{"lists", "<ul><li>a<li>b<ol start=3><li>c<li>d</ol></ul>", "- a\n- b\n  \n  3. c\n  4. d"},
		{"code", "<pre><code class=language-go>a &lt; b\n\n\nc\n</code></pre><p>x <code>y&gt;z</code>", "```go\na < b\n\n\nc\n```\n\nx `y>z`"},
		{"quote", "<blockquote>a<p>b</blockquote>", "> a\n> \n> b"},
		{"table", "<table><tr><th>a<th>b<tr><td>1<td>2</table>", "| a | b |\n|---|---|\n| 1 | 2 |"},
		{"nothing is escaped", "<p>snake_case *x* [y] 1. #z a < b > c &amp;lt; &lt;T&gt;", "snake_case *x* [y] 1. #z a < b > c &lt; <T>"},
		{"links", `<a href="/a b">1</a> <a href="../c">2</a> <a href="//o.test/">3</a> <a href="mailto:a@b.test">4</a>`,
			"[1](https://ex.test/a%20b) [2](https://ex.test/c) [3](https://o.test/) [4](mailto:a@b.test)"},
		{"base", `<base href="/other/"><a href="x">1</a>`, "[1](https://ex.test/other/x)"},
		{"links that lead nowhere", `<a href="javascript:alert(1)">1</a> <a href="#top">2</a> <a href="data:text/html,x">3</a> <a href="JaVaScRiPt:x">4</a> <a href="/x"></a>`, "1 2 3 4"},
		{"images", `<img src="i.png" alt="an i"><img src="data:image/png;base64,AAAA" alt="d">`, "![an i](https://ex.test/dir/i.png)"},
		{"what is no text", "<script>1</script><style>2</style><noscript>3</noscript><template>4</template><svg><title>5</title></svg><textarea>6</textarea>" +
			"<iframe>7</iframe><button>8</button><select><option>9</select><!-- 10 --><p>x", "x"},
		{"no words at all", "<div><span> </span></div>", ""},
		{"not HTML", "just words", "just words"},
		{"marks of the converter", "<p>a\uf002b\ue0a1c\ue0a2d</p>", "a\ufffdb\ufffdc\ufffdd"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, got := x.web.markdown(tc.doc, at)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTitle(t *testing.T) {
	x := setUp(t, claude())
	at := &url.URL{Scheme: "https", Host: "ex.test", Path: "/"}
	for doc, want := range map[string]string{
		"<title>a\n  b &lt;c&gt;</title>": "a b <c>", "<svg><title>icon</title></svg><p>x": "", "<title></title>x": "",
		"<title>1</title><title>2</title>": "1", "<title>" + strings.Repeat("x", 1000) + "</title>": strings.Repeat("x", 300) + "…",
	} {
		if got, _ := x.web.markdown(doc, at); got != want {
			t.Errorf("%.40q: %q, want %q", doc, got, want)
		}
	}
}

// TestHostilePages: what a document can do to its converter stays in proportion
// to its size, and it always gives a text.
func TestHostilePages(t *testing.T) {
	x := setUp(t, claude())
	at := &url.URL{Scheme: "https", Host: "ex.test", Path: "/" + strings.Repeat("a/", 400)}
	const size = 64 << 10
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for _, tc := range []struct {
		name, doc string
		most      int    // bytes of the text
		has       string // somewhere in it
	}{
		{"deep", fill("<div>") + "<script>no</script>words", size, "words"},
		{"deep and closed", strings.Repeat("<div>", 2000) + "words" + strings.Repeat("</div>", 2000), size, "words"},
		{"deep quotes", strings.Repeat("<blockquote>", 300) + fill("x<br>"), 12 * size, "x"},
		{"deep lists", strings.Repeat("<ul><li>", 150) + fill("x<br>"), 12 * size, "x"},
		{"wide numbers", strings.Repeat("<ol start=99999999999999><li>", 8) + fill("x<br>"), 20 * size, "x"},
		{"wide cells", "<table>" + fill("<tr><td colspan=999999999 rowspan=999999999>x"), 4 * size, "x"},
		{"one wide cell", "<table><tr><td colspan=999999>x<tr><td>y</table>", size, "x"},
		{"spans that add up", "<table>" + fill("<tr><td colspan=50 rowspan=50>x"), 4 * size, "x"},
		{"ragged table", "<table>" + strings.Repeat("<tr><td>x", 3000) + "<tr>" + strings.Repeat("<td>y", 3000) + "</table>", 4 * size, "y"},
		{"one large cell", "<table>" + strings.Repeat("<tr><td>x", 1000) + "<tr><td>" + strings.Repeat("y", size) + "</table>", 2 * size, "yyy"},
		{"links on a long address", fill("<a href=x>y</a>"), 1<<20 + 8*size, "y"},
		{"comments in a word", fill("a<!---->"), size, "aaaa"},
		{"open formatting", fill("<b><i><a href=x>z"), 1<<20 + 8*size, "z"},
		{"brackets", fill("["), size, "[[["},
		{"entities", fill("&amp;"), size, "&&&"},
		{"end in a tag", "<p>x <a href='" + fill("y"), size, "x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			done := make(chan string, 1)
			go func() {
				_, text := x.web.markdown(tc.doc, at)
				done <- text
			}()
			select {
			case text := <-done:
				if len(text) > tc.most || !strings.Contains(text, tc.has) || strings.Contains(text, "no") {
					t.Errorf("%d bytes of at most %d: %.200q", len(text), tc.most, text)
				}
			case <-time.After(60 * time.Second):
				t.Fatal("it does not end")
			}
		})
	}
}

// TestCacheBounds: fifteen minutes, and no more bytes than allowed.
func TestCacheBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := claude()
		c := &cache{keep: time.Duration(d.CacheFor), most: 3 * (overhead + 100 + 1)}
		for _, key := range []string{"a", "b", "c"} {
			c.put(key, &page{text: strings.Repeat(key, 100)})
			time.Sleep(time.Minute)
		}
		has := func(want string) {
			t.Helper()
			got := ""
			for _, key := range []string{"a", "b", "c", "d"} {
				if p := c.get(key); p != nil {
					got += key + p.text[:1]
				}
			}
			if got != want {
				t.Errorf("it has %q, want %q", got, want)
			}
		}
		has("aabbcc")
		c.put("d", &page{text: strings.Repeat("d", 50)})
		has("bbccdd") // the oldest made room
		c.put("b", &page{text: strings.Repeat("x", 100)})
		has("bxccdd") // in place of itself
		c.put("huge", &page{text: strings.Repeat("x", 1<<20)})
		has("bxccdd")
		time.Sleep(14*time.Minute - time.Nanosecond) // c was put a minute before
		has("bxccdd")
		time.Sleep(time.Nanosecond)
		has("bxdd")
		time.Sleep(time.Minute)
		has("")
		if c.size != 0 || len(c.order) != 0 {
			t.Errorf("%d bytes in %d pages are left", c.size, len(c.order))
		}
	})
}
