package chatwire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// read gives the lines of the chunks that a body becomes, and the error.
func read(body io.Reader, whole bool) ([]string, error) {
	var got collected
	a := &answer{
		yield:   got.put,
		failure: func(report []byte) *llm.Error { return &llm.Error{Code: llm.CodeServer, Message: string(report)} },
	}
	var err error
	if whole {
		err = readWhole(a, body)
	} else {
		err = readStream(a, body)
	}
	return got.lines, errors.Join(err, got.broken)
}

// collected are chunks as lines.
type collected struct {
	lines  []string
	broken error
}

func (l *collected) put(c sdkproto.Chunk) bool {
	line, err := c.AppendJSON(nil)
	l.broken = errors.Join(l.broken, err)
	l.lines = append(l.lines, string(line))
	return true
}

// FuzzStream: any bytes end with a finish or an error and nothing after it, and
// how they are cut on their way makes no difference.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		"",
		"data: [DONE]\n\n",
		"\ufeffdata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"日本\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata:[DONE]\r\n\r\n",
		": keep-alive\n\nevent: ping\ndata: x\n\nevent: error\rdata: {\"error\":{\"code\":429}}\r\r",
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":\"{\"}}]}}]}\n\n" +
			"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"b\"},{\"id\":\"a\"},{}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n",
		"data: {\"usage\":{\"prompt_tokens\":3,\"prompt_cache_hit_tokens\":9}}\ndata: \n\ndata: {\ndata: }\n\ndata: [DONE]",
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\xff\",\"reasoning\":\"\\ud800\"},\"finish_reason\":\"Ödd\"}]}\n\ndata: [DONE]\n",
		"data\n\ndata:\n\n\r\n\r\r\n\n\rdata: {",
		"{\"choices\":[{\"message\":{\"content\":\"whole\"},\"finish_reason\":\"length\"}]}",
	} {
		f.Add([]byte(s), uint8(1), false)
		f.Add([]byte(s), uint8(5), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, piece uint8, whole bool) {
		lines := cutAnyhow(t, data, int(piece), func(r io.Reader) ([]string, error) { return read(r, whole) })
		if strings.Contains(fmt.Sprint(lines), `"finish","reason":{"kind":"error"`) {
			t.Fatalf("an error in place of a finish: %q", lines)
		}
	})
}

// cutAnyhow reads data at once and in pieces: it ends with a finish or an error and
// nothing after it, the same each time. It gives the chunks.
func cutAnyhow(t *testing.T, data []byte, piece int, read func(io.Reader) ([]string, error)) []string {
	t.Helper()
	lines, err := read(bytes.NewReader(data))
	for i, line := range lines {
		if finish := strings.HasPrefix(line, `{"type":"finish"`); finish != (err == nil && i == len(lines)-1) {
			t.Fatalf("a finish comes last and without an error: %q, %v", lines, err)
		}
	}
	if err == nil && len(lines) == 0 {
		t.Fatal("neither a chunk nor an error")
	}
	var known *llm.Error
	if err != nil && !errors.As(err, &known) {
		t.Fatalf("an error of no kind: %v", err)
	}
	for name, cut := range map[string]io.Reader{
		"byte by byte":      iotest.OneByteReader(bytes.NewReader(data)),
		"with the error":    iotest.DataErrReader(bytes.NewReader(data)),
		"in pieces":         &pieces{bytes.NewReader(data), piece%13 + 1},
		"in pieces, halved": iotest.HalfReader(&pieces{bytes.NewReader(data), piece%7 + 2}),
	} {
		again, err2 := read(cut)
		if diff := cmp.Diff(lines, again); diff != "" || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%s: %v, then %v\n%s", name, err, err2, diff)
		}
	}
	return lines
}

// pieces reads at most so many bytes at once.
type pieces struct {
	r io.Reader
	n int
}

func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(p.n, len(b))]) }

// TestLargeEvents: an event may be as large as 16 MiB, in whatever lines, and
// no larger.
func TestLargeEvents(t *testing.T) {
	event := func(n int) string {
		return "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("y", n) + "\"}}],\ndata: \"pad\":0}\n\ndata: [DONE]\n\n"
	}
	for _, tc := range []struct {
		name string
		body string
		code string
	}{
		{"large", event(15 << 20), ""},
		{"too large a line", event(17 << 20), llm.CodeMalformedResponse},
		{"too large a line without an end", "data: " + strings.Repeat("x", 17<<20), llm.CodeMalformedResponse},
		{"too large in lines", strings.Repeat("data: "+strings.Repeat(" ", 1<<20)+"\n", 18) + "\n", llm.CodeMalformedResponse},
		{"many small ones", strings.Repeat(": "+strings.Repeat("c", 1<<20)+"\n", 20) + "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := read(strings.NewReader(tc.body), false)
			var e *llm.Error
			if errors.As(err, &e) != (tc.code != "") || e != nil && e.Code != tc.code {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := read(strings.NewReader(strings.Repeat(" ", 17<<20)), true); err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
		t.Errorf("too large an answer gives %v", err)
	}
}

// A chunk leaves nothing behind for the next (performance rule 4).
func TestChunkReuse(t *testing.T) {
	lines, err := read(strings.NewReader(
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\",\"tool_calls\":[{\"index\":0,\"id\":\"i\",\"function\":{\"name\":\"n\",\"arguments\":\"1\"}}]},\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":1,\"prompt_cache_hit_tokens\":1}}\n\n"+
			"data: {\"choices\":[{}]}\n\n"+
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"2\"}}]}}],\"usage\":{\"prompt_tokens\":2}}\n\ndata: [DONE]\n\n"), false)
	want := []string{
		`{"type":"block-start","index":0,"blockType":"text"}`,
		`{"type":"text-delta","index":0,"text":"a"}`,
		`{"type":"block-start","index":1,"blockType":"tool-call"}`,
		`{"type":"tool-call-delta","index":1,"id":"i","name":"n","argumentsDelta":"1"}`,
		`{"type":"tool-call-delta","index":1,"id":"i","argumentsDelta":"2"}`,
		`{"type":"block-end","index":0,"block":{"type":"text","text":"a"}}`,
		`{"type":"block-end","index":1,"block":{"type":"tool-call","id":"i","name":"n","arguments":"12"}}`,
		`{"type":"usage","usage":{"inputTokens":2,"outputTokens":0}}`,
		`{"type":"finish","reason":{"kind":"max-tokens"}}`,
	}
	if diff := cmp.Diff(want, lines); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// BenchmarkStream decodes 20,000 deltas.
func BenchmarkStream(b *testing.B) {
	var s strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&s, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"deepseek-v4-flash\",\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w%d \"},\"logprobs\":null,\"finish_reason\":null}]}\n\n", i)
	}
	s.WriteString("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	text := s.String()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		a := &answer{yield: func(sdkproto.Chunk) bool { n++; return true }}
		if err := readStream(a, strings.NewReader(text)); err != nil || n != 20_003 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20_000, "ns/delta")
}
