package chatwire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/kernel/llm/llmtest"
)

func TestRequestsAtOnce(t *testing.T) {
	for descriptors, want := range map[uint64]int{0: 1 << 16, 100: 16, 256: 16, 1024: 384, 20_000: 9872, 1 << 20: 1 << 16, 1<<64 - 1: 1 << 16} {
		if got := requestsAtOnce(descriptors); got != want {
			t.Errorf("%d descriptors give %d requests, want %d", descriptors, got, want)
		}
	}
}

// A request that finds no room waits for it, and no longer than it is wanted.
func TestRoom(t *testing.T) {
	o := kernel.NewOwner(context.Background(), "test")
	c, err := NewClient(o, Options{Dialect: deepseekDialect(), BaseURL: "http://127.0.0.1:1", Idle: time.Minute, Connect: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c.room = make(chan struct{}, 1)
	c.room <- struct{}{}
	attempt := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() {
			var last error
			for _, err := range c.Stream(ctx, llm.Request{}) {
				last = err
			}
			ended <- last
		}()
		return ended
	}
	ctx, cancel := context.WithCancel(context.Background())
	waits := attempt(ctx)
	select {
	case err := <-waits:
		t.Fatalf("there is no room, and it gives %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled, it gives %v", err)
	}
	waits = attempt(context.Background())
	<-c.room
	var e *llm.Error
	if err := <-waits; !errors.As(err, &e) || e.Code != llm.CodeTransport {
		t.Errorf("with room, it gives %v", err)
	}
	if len(c.room) != 0 {
		t.Error("the room is not given back")
	}
	c.room <- struct{}{}
	waits = attempt(context.Background())
	if err := o.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.As(err, &e) || e.Code != llm.CodeAborted {
		t.Errorf("closed, it gives %v", err)
	}
}

// While an answer streams, the text of its request is no longer in memory.
func TestRequestIsReleased(t *testing.T) {
	server := llmtest.NewServer(t, llmtest.DeepSeek())
	reply := llmtest.Stream(llmtest.Text("a"), llmtest.Finish("stop"), llmtest.Done)
	reply.Lenient = true
	server.Script(reply)
	o := kernel.NewOwner(context.Background(), "test")
	c, err := NewClient(o, Options{Dialect: deepseekDialect(), BaseURL: server.URL, Idle: time.Minute, Connect: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var sent *http.Request
	c.transport.Proxy = func(r *http.Request) (*url.URL, error) { sent = r; return nil, nil }
	for _, err := range c.Stream(context.Background(), specRequest()) {
		if err != nil {
			t.Fatal(err)
		}
		body, err := sent.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(body); err != nil || len(text) > 0 {
			t.Fatalf("the request still holds %d bytes, %v", len(text), err)
		}
	}
	if got := server.Received(); len(got) != 1 || string(got[0].Body) != encode(t, deepseekDialect(), specRequest()) {
		t.Errorf("the server got %q", got)
	}
	if err := o.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
