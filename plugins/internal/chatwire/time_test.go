package chatwire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/sdkproto"
)

const (
	idle      = 300 * time.Second // decision D18
	headers   = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
	hello     = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n"
	stopEvent = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
)

// TestTime runs attempts against a provider that takes its time, in virtual
// time: a silent one is given up after the idle limit, and only then (cases B50,
// B58).
func TestTime(t *testing.T) {
	for _, tc := range []struct {
		name string
		// serve answers on a connection whose request has been read; nil lets nobody
		// connect.
		serve func(c net.Conn)
		// slow is how long the consumer takes for a chunk.
		slow time.Duration
		code string
		took time.Duration
	}{
		{
			name: "no headers", code: llm.CodeTimeout, took: idle,
			serve: func(c net.Conn) { time.Sleep(2 * time.Hour) },
		},
		{
			name: "silence behind the headers", code: llm.CodeTimeout, took: time.Minute + idle,
			serve: func(c net.Conn) {
				time.Sleep(time.Minute)
				_, _ = io.WriteString(c, headers)
				time.Sleep(2 * time.Hour)
			},
		},
		{
			name: "silence behind some text", code: llm.CodeTimeout, took: time.Minute + idle,
			serve: func(c net.Conn) {
				_, _ = io.WriteString(c, headers+hello)
				time.Sleep(time.Minute)
				_, _ = io.WriteString(c, hello)
				time.Sleep(2 * time.Hour)
			},
		},
		{
			name: "comments are life", took: 200*200*time.Second + 299*time.Second,
			serve: func(c net.Conn) {
				_, _ = io.WriteString(c, headers)
				for range 200 {
					time.Sleep(200 * time.Second)
					_, _ = io.WriteString(c, ": keep-alive\n")
				}
				time.Sleep(299 * time.Second)
				_, _ = io.WriteString(c, hello+stopEvent)
			},
		},
		{
			name: "blank lines are life", took: 10 * 299 * time.Second,
			serve: func(c net.Conn) {
				_, _ = io.WriteString(c, headers)
				for range 10 {
					time.Sleep(299 * time.Second)
					_, _ = io.WriteString(c, "\n")
				}
				_, _ = io.WriteString(c, hello+stopEvent)
			},
		},
		{
			name: "lines in pieces are life", took: 10 * 500 * time.Second,
			serve: func(c net.Conn) {
				_, _ = io.WriteString(c, headers)
				for range 10 {
					time.Sleep(250 * time.Second)
					_, _ = io.WriteString(c, ": keep-")
					time.Sleep(250 * time.Second)
					_, _ = io.WriteString(c, "alive\n")
				}
				_, _ = io.WriteString(c, hello+stopEvent)
			},
		},
		{
			name: "one byte a minute is life for twice the limit", code: llm.CodeTimeout, took: 2 * idle,
			serve: func(c net.Conn) {
				_, _ = io.WriteString(c, headers)
				for {
					if _, err := io.WriteString(c, "x"); err != nil {
						return
					}
					time.Sleep(time.Minute)
				}
			},
		},
		{
			name: "a slow consumer is not the provider's silence", slow: time.Hour, took: 5 * time.Hour,
			serve: func(c net.Conn) {
				_, _ = io.WriteString(c, headers+hello)
				time.Sleep(time.Second)
				_, _ = io.WriteString(c, hello+stopEvent)
			},
		},
		{name: "no connection", code: llm.CodeTimeout, took: 30 * time.Second},
		{
			name: "a provider that keeps the connection open behind the terminator", took: drainLimit,
			serve: func(c net.Conn) { _, _ = io.WriteString(c, headers+hello+stopEvent); time.Sleep(2 * time.Hour) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := kernel.NewOwner(context.Background(), "test")
				c, err := NewClient(o, Options{Dialect: deepseekDialect(), BaseURL: "http://provider.test", Idle: idle, Connect: 30 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				served := make(chan struct{})
				c.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
					near, far := net.Pipe()
					if tc.serve == nil {
						ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
						defer cancel()
						<-ctx.Done()
						close(served)
						return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
					}
					go func() {
						defer close(served)
						defer far.Close()
						in := bufio.NewReader(far)
						r, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, r.Body)
						tc.serve(far)
					}()
					return near, nil
				}
				begin := time.Now()
				var last error
				finished := false
				for chunk, err := range c.Stream(context.Background(), specRequest()) {
					last = err
					finished = finished || chunk.Type == sdkproto.ChunkFinish
					time.Sleep(tc.slow)
				}
				took := time.Since(begin)
				var e *llm.Error
				if errors.As(last, &e) != (tc.code != "") || e != nil && e.Code != tc.code || finished != (tc.code == "") {
					t.Errorf("got %v, finished %v", last, finished)
				}
				if tc.slow == 0 && took != tc.took || took < tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				if e != nil && !strings.Contains(e.Message, "provider.test") {
					t.Errorf("the message does not name the endpoint: %s", e.Message)
				}
				if err := o.Close(context.Background()); err != nil {
					t.Error(err)
				}
				<-served
			})
		})
	}
}
