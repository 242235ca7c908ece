package jsonrpc_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/attachment"
	"dsh/kernel/attachment/attachmenttest"
	"dsh/plugins/attachmentlocal"
	"dsh/plugins/jsonrpc"
	"dsh/sdkproto"
)

// pictured is a server with real sessions and a real attachment store.
func pictured(t *testing.T) *composed {
	c := compose(t, composition{home: t.TempDir(), rows: "  images: {use: attachment-local}\n", plugins: []kernel.Plugin{attachmentlocal.Plugin}})
	c.tell(strings.Replace(initialize, `"model":"m"`, `"model":"m","protocolVersion":1`, 1))
	c.answer(`"i"`)
	return c
}

func inlineBlock(mediaType string, data []byte) string {
	return `{"type":"image","data":"` + base64.StdEncoding.EncodeToString(data) + `","mimeType":"` + mediaType + `"}`
}

func imagePrompt(id, session string, blocks ...string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"session/prompt","params":{"sessionId":"` + session + `","contentBlocks":[` + strings.Join(blocks, ",") + `]}}`
}

// Spec jsonrpc 2.8, 14 line 14; S131, S132: references take the places of inline
// images, in order, among blocks that stay as they are; the log has no base64.
func TestInlineImages(t *testing.T) {
	c := pictured(t)
	small := attachmenttest.PNG(t, attachmenttest.Gradient(3, 2))
	wide := attachmenttest.JPEG(t, attachmenttest.Gradient(4096, 8))
	const byReference = `{"type":"image","attachment":{"attachmentId":"sha256:00","mediaType":"image/png","bytes":1,"more":true}}`
	const foreign = `{"type":"hologram","data":"AAAA"}`
	named := strings.TrimSuffix(inlineBlock("image/png", small), "}") + `,"name":"a.png"}`
	c.tell(imagePrompt("1", "s", inlineBlock("image/jpeg", wide), `{"type":"text","text":"and"}`, byReference, named, foreign, inlineBlock("image/png", small)))
	lines := c.until(`"status":"idle"`)
	events := wired(t, lines, "s")
	var receipt struct {
		Data struct {
			Inserted []struct{ Content []json.RawMessage }
		}
	}
	if err := json.Unmarshal([]byte(events[0]), &receipt); err != nil {
		t.Fatal(err)
	}
	content := receipt.Data.Inserted[0].Content
	if len(content) != 6 {
		t.Fatalf("content %s", content)
	}
	for i, want := range map[int]string{1: `{"type":"text","text":"and"}`, 2: byReference, 4: foreign} {
		if string(content[i]) != want {
			t.Errorf("block %d is %s", i, content[i])
		}
	}
	for i, want := range map[int]string{3: `,"name":"a.png"}}`, 5: `}}`} {
		if got := string(content[i]); got != `{"type":"image","attachment":{"attachmentId":"`+attachmenttest.ID(small)+`","mediaType":"image/png","bytes":`+fmt.Sprint(len(small))+`,"width":3,"height":2`+want {
			t.Errorf("block %d is %s", i, got)
		}
	}
	if got := string(content[0]); !strings.Contains(got, `"width":2048,"height":4,"originalDimensions":{"width":4096,"height":8}}}`) {
		t.Errorf("block 0 is %s", got)
	}
	stored := logged(t, c.kernel.Home, "s")
	if diff := gocmp.Diff(events, stored); diff != "" {
		t.Errorf("wire and log differ: %s", diff)
	}
	if all := strings.Join(append(stored, c.logs.String()), "\n"); strings.Contains(all, base64.StdEncoding.EncodeToString(small)[:24]) {
		t.Error("the log holds base64")
	}
	files, err := os.ReadDir(filepath.Join(c.kernel.Home, "attachments", "objects"))
	if err != nil || len(files) != 2 {
		t.Errorf("stored %v, %v", files, err)
	}
}

// Spec jsonrpc 9.8, 14 line 14: each code, at its block, and nothing is queued:
// not even a session. The one that takes 200 MiB is in the store's own tests.
func TestInlineImageRefusals(t *testing.T) {
	c := pictured(t)
	small := attachmenttest.PNG(t, attachmenttest.Gradient(2, 2))
	good := inlineBlock("image/png", small)
	grey := color.NRGBA{9, 9, 9, 255}
	text := `{"type":"text","text":"see"}`
	var many []string
	for range 21 {
		many = append(many, good)
	}
	for i, tc := range []struct {
		code   string
		blocks []string
		field  string
	}{
		{"TOO_MANY_IMAGES", many, "contentBlocks"},
		{"IMAGE_TOO_LARGE", []string{text, `{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("AAAA", 7<<20) + `"}`}, "contentBlocks[1]"},
		{"IMAGE_TOO_MANY_PIXELS", []string{good, inlineBlock("image/webp", attachmenttest.WebP(8100, 8000, grey))}, "contentBlocks[1]"},
		{"IMAGE_DIMENSION_TOO_LARGE", []string{inlineBlock("image/png", attachmenttest.PNG(t, image.NewGray(image.Rect(0, 0, 8193, 1))))}, "contentBlocks[0]"},
		{"UNSUPPORTED_IMAGE_TYPE", []string{text, text, inlineBlock("image/bmp", small)}, "contentBlocks[2]"},
		{"UNSUPPORTED_IMAGE_TYPE", []string{`{"type":"image","data":"AAAA"}`}, "contentBlocks[0]"},
		{"IMAGE_TYPE_MISMATCH", []string{inlineBlock("image/gif", small)}, "contentBlocks[0]"},
		{"INVALID_IMAGE_BASE64", []string{good, text, `{"type":"image","data":"AAA","mimeType":"image/png"}`}, "contentBlocks[2]"},
		{"INVALID_IMAGE", []string{inlineBlock("image/png", []byte("<html>"))}, "contentBlocks[0]"},
		{"INVALID_IMAGE", []string{`{"type":"image","data":"","mimeType":"image/png"}`}, "contentBlocks[0]"},
		{"INVALID_IMAGE", []string{`{"ty\u0070e":"im\u0061ge","d\u0061ta":"AAAA","mimeType":"image/png"}`}, "contentBlocks[0]"},
	} {
		id := fmt.Sprint(i + 10)
		c.tell(imagePrompt(id, "refused", tc.blocks...))
		got, before := c.answer(id)
		if len(before) > 0 {
			t.Errorf("%s: before the answer: %q", tc.code, before)
		}
		var f struct {
			Error struct {
				Code    int
				Message string
				Data    sdkproto.ErrorData
			}
		}
		if err := json.Unmarshal([]byte(got), &f); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(sdkproto.ErrorData{Code: tc.code, Field: tc.field}, f.Error.Data); diff != "" || f.Error.Code != -32602 {
			t.Errorf("code %d %s", f.Error.Code, diff)
		}
		if !strings.HasSuffix(f.Error.Message, " ("+tc.code+", "+tc.field+")") || len(f.Error.Message) > 300 {
			t.Errorf("%s: message %.400q", tc.code, f.Error.Message)
		}
		if tc.code == "INVALID_IMAGE_BASE64" && !strings.HasPrefix(f.Error.Message, "Image upload is not canonical base64.") {
			t.Errorf("message %q is not the known one", f.Error.Message) // spec jsonrpc 2.2
		}
	}
	for name, blocks := range map[string]string{
		"inside another block":    `{"type":"tool-result","toolCallId":"1","content":[` + good + `]}`,
		"beside a reference":      strings.TrimSuffix(good, "}") + `,"attachment":{"attachmentId":"sha256:00"}}`,
		"data that is not a text": `{"type":"image","data":1,"mimeType":"image/png"}`,
		"type that is not a text": `{"type":"image","data":"AAAA","mimeType":7}`,
	} {
		c.tell(imagePrompt("3", "refused", text, blocks))
		if got, _ := c.answer("3"); !strings.Contains(got, `"error":{"code":-32602,"message":"session/prompt contentBlocks[1]: `) || !strings.Contains(got, `"field":"contentBlocks[1]"`) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if files, err := filepath.Glob(filepath.Join(c.kernel.Home, "*", "*refused*")); err != nil || len(files) > 0 {
		t.Errorf("a session was made: %v, %v", files, err)
	}
	// A plain prompt goes on (case B46), and the session begins with it.
	c.tell(prompt("4", "refused", "hello"))
	if events := wired(t, c.until(`"status":"idle"`), "refused"); !strings.Contains(events[0], `"seq":0,`) {
		t.Errorf("the first event is %s", events[0])
	}
}

// shelf is an attachment store that does what a test says.
type shelf struct {
	admit func(ctx context.Context, batch []attachment.Upload) error
}

func (s shelf) Admit(ctx context.Context, batch []attachment.Upload) ([]sdkproto.Attachment, error) {
	if err := s.admit(ctx, batch); err != nil {
		return nil, err
	}
	refs := make([]sdkproto.Attachment, len(batch))
	for i := range batch {
		refs[i] = sdkproto.Attachment{AttachmentID: fmt.Sprint("ref", i), MediaType: batch[i].MediaType}
	}
	return refs, nil
}

func (shelf) Read(context.Context, string) ([]byte, error) { return nil, attachment.ErrNotFound }

const anImage = `{"type":"image","data":"AAAA","mimeType":"image/png"}`

// S132, B95: an admission that takes its time holds up what comes behind it in
// its session, in order, and nothing else.
func TestAdmissionKeepsOrder(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	store := shelf{func(context.Context, []attachment.Upload) error {
		close(begun)
		<-release
		return nil
	}}
	p := serve(t, setup{options: func(o *jsonrpc.Options) { o.Attachments = store }})
	p.begin()
	p.send(imagePrompt("1", "s", anImage))
	<-begun
	p.send(prompt("2", "s", "behind it"), prompt("3", "other", "beside it"), probe)
	p.until(`"params":{"sessionId":"other","status":"idle"}`)
	close(release)
	lines := p.until("behind it")
	var receipts []string
	for _, l := range lines {
		if strings.Contains(l, `"sessionId":"s"`) && strings.Contains(l, `"inserted":[{`) {
			receipts = append(receipts, l)
		}
	}
	if len(receipts) != 2 || !strings.Contains(receipts[0], "ref0") || !strings.Contains(receipts[1], "behind it") {
		t.Errorf("receipts %q", receipts)
	}
}

// Spec jsonrpc 2.8: the session is looked at before the admission and again
// behind it.
func TestAdmissionChecksTheSessionAgain(t *testing.T) {
	var admitted int
	var during func()
	p := serve(t, setup{options: func(o *jsonrpc.Options) {
		o.Attachments = shelf{func(context.Context, []attachment.Upload) error {
			admitted++
			during()
			return nil
		}}
	}})
	p.begin()
	p.send(prompt("1", "s", "hello"))
	p.until(`"status":"idle"`)
	during = func() { p.agents.Close(context.Background(), "s", agent.Cause{}) }
	disposed := `"session agent was disposed outside the server: s"`
	for i, want := range []string{"behind", "before"} {
		id := fmt.Sprint(7 + i)
		p.send(imagePrompt(id, "s", anImage))
		if got, before := p.answer(id); got != failed(id, -32603, disposed) || len(of(before, "session.event")) > 0 {
			t.Errorf("%s the admission: %s behind %q", want, got, before)
		}
	}
	if admitted != 1 {
		t.Errorf("admitted %d times", admitted)
	}
}

// A repeated prompt is the same one, whatever becomes of its images; an image
// that comes before the handshake, or too late, is not kept.
func TestAdmissionOnlyWhereNeeded(t *testing.T) {
	var mu sync.Mutex
	admitted := 0
	p := serve(t, setup{options: func(o *jsonrpc.Options) {
		o.Attachments = shelf{func(ctx context.Context, batch []attachment.Upload) error {
			mu.Lock()
			defer mu.Unlock()
			admitted++
			switch batch[0].Name {
			case "disk":
				return errors.New("no space left on device")
			case "wait":
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}}
	}})
	p.send(imagePrompt("1", "s", anImage))
	if got, _ := p.answer("1"); got != failed("1", -32603, `"SDK server is not initialized"`) {
		t.Errorf("got %s", got)
	}
	p.begin()
	keyed := strings.Replace(imagePrompt("2", "s", anImage), `"sessionId"`, `"idempotencyKey":"k","sessionId"`, 1)
	p.send(keyed)
	p.until(`"status":"idle"`)
	p.send(strings.Replace(keyed, `"id":2`, `"id":3`, 1))
	if got, _ := p.answer("3"); got != `{"jsonrpc":"2.0","id":3,"result":{"messageId":"s-m1"}}` {
		t.Errorf("got %s", got)
	}
	mu.Lock()
	if admitted != 1 {
		t.Errorf("admitted %d times", admitted)
	}
	mu.Unlock()
	namedImage := func(name string) string { return strings.TrimSuffix(anImage, "}") + `,"name":"` + name + `"}` }
	p.send(imagePrompt("4", "s", namedImage("disk")))
	if got, _ := p.answer("4"); got != failed("4", -32603, `"session/prompt contentBlocks: no space left on device"`) {
		t.Errorf("got %s", got)
	}
	p.send(imagePrompt("5", "s", namedImage("wait")))
	for deadline := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
		if mu.TryLock() {
			n := admitted
			mu.Unlock()
			if n < 3 && time.Now().Before(deadline) {
				continue
			}
		}
		break
	}
	p.send(shutdown)
	if got, _ := p.answer("5"); got != failed("5", -32603, `"SDK server is shutting down"`) {
		t.Errorf("got %s", got)
	}
	p.answer(`"stop"`)
}

// An image steered into a turn is kept like that of a prompt.
func TestSteeredImage(t *testing.T) {
	p := serve(t, setup{options: func(o *jsonrpc.Options) {
		o.Attachments = shelf{func(context.Context, []attachment.Upload) error { return nil }}
	}})
	p.begin()
	p.send(prompt("1", "s", "hello"))
	p.until(`"status":"idle"`)
	p.send(strings.Replace(imagePrompt("2", "s", anImage), "session/prompt", "session/steer", 1))
	if lines := p.until(`"status":"idle"`); !strings.Contains(strings.Join(lines, "\n"), `"target":"next-step","start":0,"inserted":[{"content":[{"type":"image","attachment":{"attachmentId":"ref0"`) {
		t.Errorf("got %s", strings.Join(lines, "\n"))
	}
}
