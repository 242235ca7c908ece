package chatwire

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
	"dsh/kernel/llm/llmtest"
	"dsh/sdkproto"
)

// The first bytes of the four types are enough: nobody here decodes.
const (
	pngBytes  = "\x89PNG\r\n\x1a\n and so on"
	jpegBytes = "\xff\xd8\xff\xe0 and so on"
)

// stored stands for an attachment store, by id.
var stored = map[string]string{"png": pngBytes, "jpeg": jpegBytes, "gif": "GIF89a", "webp": "RIFF\x00\x00\x00\x00WEBPVP8L", "page": "<html>"}

func readStored(_ context.Context, a *sdkproto.Attachment) ([]byte, error) {
	data, ok := stored[a.AttachmentID]
	if !ok {
		return nil, errors.New("no such attachment")
	}
	return []byte(data), nil
}

func picture(id, name string) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockImage, Attachment: &sdkproto.Attachment{AttachmentID: id, MediaType: "image/png", Name: name, Width: 640, Height: 480}}
}

func imageURL(mediaType, data string) string {
	return `{"type":"image_url","image_url":{"url":"data:` + mediaType + `;base64,` + base64.StdEncoding.EncodeToString([]byte(data)) + `"}}`
}

func part(text string) string { return `{"type":"text","text":"` + text + `"}` }

// Spec jsonrpc 10.3, cases B46 and B52: images for a model that takes them.
func TestImages(t *testing.T) {
	text := sdkproto.Text
	calls := assistant(called("1", "x", "{}"), called("2", "x", "{}"))
	said := `{"role":"assistant","content":"","reasoning_content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"x","arguments":"{}"}},` +
		`{"id":"2","type":"function","function":{"name":"x","arguments":"{}"}}]},`
	for _, tc := range []struct {
		name string
		in   []sdkproto.Message
		want string
	}{
		{"between texts", []sdkproto.Message{user(text("see"), picture("png", ""), text("a"), text("b"))},
			`{"role":"user","content":[` + part("see") + `,` + imageURL("image/png", pngBytes) + `,` + part("ab") + `]}`},
		{"alone, beside blank text", []sdkproto.Message{user(picture("png", ""), text(" "))},
			`{"role":"user","content":[` + imageURL("image/png", pngBytes) + `]}`},
		{"with names", []sdkproto.Message{user(text("see"), picture("png", "a.png"), picture("gif", "b.gif"))},
			`{"role":"user","content":[` + part(`see\n[image: a.png]`) + `,` + imageURL("image/png", pngBytes) + `,` + part("[image: b.gif]") + `,` + imageURL("image/gif", stored["gif"]) + `]}`},
		{"the type is that of the bytes", []sdkproto.Message{user(picture("jpeg", ""), picture("webp", ""))},
			`{"role":"user","content":[` + imageURL("image/jpeg", jpegBytes) + `,` + imageURL("image/webp", stored["webp"]) + `]}`},
		{"not there, and not an image", []sdkproto.Message{user(picture("gone", "g.png"), picture("page", ""), text("so"))},
			`{"role":"user","content":[` + part(`[image: g.png]\n[image omitted: g.png, image/png, 640x480 pixels; it cannot be read any more]\n`+
				`[image omitted: image/png, 640x480 pixels; it cannot be read any more]\nso`) + `]}`},
		{"no reference", []sdkproto.Message{user(sdkproto.Block{Type: sdkproto.BlockImage, Data: "AA=="})},
			`{"role":"user","content":[` + part("[image omitted: it cannot be read any more]") + `]}`},
		{"a message without images stays a text", []sdkproto.Message{user(text("a"), text("b"))}, `{"role":"user","content":"ab"}`},
		{
			"in results", []sdkproto.Message{calls, result("1", text("one"), picture("png", "a.png")), result("2", picture("gone", ""), picture("jpeg", "")), user(text("go on"))},
			said + `{"role":"tool","tool_call_id":"1","content":"one\n[image 1: a.png, image/png, 640x480 pixels; it follows behind the tool results]"},` +
				`{"role":"tool","tool_call_id":"2","content":"[image 2: image/png, 640x480 pixels; it follows behind the tool results]\n[image 3: image/png, 640x480 pixels; it follows behind the tool results]"},` +
				`{"role":"user","content":[` + part(`Attached image(s) from tool result:\n[image 1]`) + `,` + imageURL("image/png", pngBytes) + `,` +
				part(`[image 2]\n[image omitted: image/png, 640x480 pixels; it cannot be read any more]\n[image 3]`) + `,` + imageURL("image/jpeg", jpegBytes) + `]},` +
				`{"role":"user","content":"go on"}`,
		},
		{
			"in a result beside a text", []sdkproto.Message{user(sdkproto.Block{Type: sdkproto.BlockToolResult, ToolCallID: "1", Content: []sdkproto.Block{picture("png", "")}}, text("go on"))},
			`{"role":"tool","tool_call_id":"1","content":"[image 1: image/png, 640x480 pixels; it follows behind the tool results]"},` +
				`{"role":"user","content":[` + part(`Attached image(s) from tool result:\n[image 1]`) + `,` + imageURL("image/png", pngBytes) + `]},{"role":"user","content":"go on"}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := encode(t, deepseekDialect(), llm.Request{Messages: tc.in, Image: readStored})
			got = strings.TrimPrefix(got[:strings.LastIndex(got, `],"stream":true`)], `{"model":"","messages":[`)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Spec jsonrpc 10.7: what a request says is the beginning of what the next says.
func TestImagesKeepThePrefix(t *testing.T) {
	history := []sdkproto.Message{
		user(sdkproto.Text("see"), picture("png", "a")), assistant(called("1", "x", "{}")), result("1", picture("jpeg", "b")),
		user(sdkproto.Text("by the way")), assistant(sdkproto.Text("fine")), user(picture("gone", "")), assistant(sdkproto.Text("ok")),
		user(sdkproto.Text("more")), assistant(called("2", "x", "{}")), result("2", picture("gif", "")), assistant(called("3", "x", "{}")), result("3", picture("webp", "")),
		user(picture("png", "")),
	}
	before := ""
	for n := range history {
		got := encode(t, deepseekDialect(), llm.Request{Messages: history[:n+1], Image: readStored})
		got, _, _ = strings.Cut(got, `],"stream":true`)
		if !strings.HasPrefix(got, before) {
			t.Errorf("with %d messages:\n%s\ndoes not begin with\n%s", n+1, got, before)
		}
		before = got
	}
}

// A model that takes no images is given words, whatever the store holds; one
// that does gets what the store holds.
func TestImagesOfModels(t *testing.T) {
	server := llmtest.NewServer(t, llmtest.DeepSeek())
	o := kernel.NewOwner(context.Background(), "test")
	defer o.Close(context.Background())
	dialect := deepseekDialect()
	c, err := NewClient(o, Options{Dialect: dialect, BaseURL: server.URL, KeyName: "KEY", Credentials: credential.Environment(func(string) (string, bool) { return llmtest.Key, true }), Idle: time.Minute, Connect: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		model   string
		catalog Catalog
		shown   bool
	}{
		{"listed", Catalog{Models: map[string]Model{"listed": {Images: true}}}, true},
		{"listed", Catalog{Models: map[string]Model{"listed": {}}, Images: true}, false},
		{"other", Catalog{Images: true}, true},
		{"other", Catalog{}, false},
	} {
		server.Script(llmtest.Stream(llmtest.Text("fine"), llmtest.Finish("stop"), llmtest.Done))
		a := Adapter{Catalog: &tc.catalog, Client: c}
		if _, _, info, err := a.Resolve(llm.Route{Model: tc.model}); err != nil || info.Images != tc.shown {
			t.Errorf("%s: info %+v, %v", tc.model, info, err)
		}
		req := llm.Request{Messages: []sdkproto.Message{user(picture("png", ""))}, Image: readStored}
		req.Header.Config.Model = tc.model
		for _, err := range a.Stream(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
		}
		requests := server.Received()
		if why := requests[len(requests)-1].Refused; why != "" {
			t.Errorf("%s: refused: %s", tc.model, why)
		}
		body := string(requests[len(requests)-1].Body)
		if strings.Contains(body, imageURL("image/png", pngBytes)) != tc.shown || strings.Contains(body, "given text only") == tc.shown {
			t.Errorf("%+v is sent %s", tc.catalog, body)
		}
	}
}

// The end of the caller's context ends the reading of images, with its error.
func TestImagesOfEndedRequest(t *testing.T) {
	o := kernel.NewOwner(context.Background(), "test")
	defer o.Close(context.Background())
	c, err := NewClient(o, Options{Dialect: deepseekDialect(), BaseURL: "http://127.0.0.1:1", Idle: time.Minute, Connect: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var last error
	for _, err := range c.Stream(ctx, llm.Request{
		Messages: []sdkproto.Message{user(picture("png", ""))},
		Image: func(ctx context.Context, _ *sdkproto.Attachment) ([]byte, error) {
			cancel()
			return nil, ctx.Err()
		},
	}) {
		last = err
	}
	if last != context.Canceled {
		t.Errorf("ended with %v", last)
	}
}

// No encoded bytes in errors.
func TestScrub(t *testing.T) {
	long := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("picture", 40)))
	for in, want := range map[string]string{
		"":                                     "",
		"plain words, path /v1/chat and a=b":   "plain words, path /v1/chat and a=b",
		"Invalid 'data:image/png;base64,iVBO'": "Invalid 'data:image/png;base64,...'",
		"input: " + long + ".":                 "input: ....",
		"base64, as you know":                  "base64, as you know",
	} {
		if got := scrub(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
