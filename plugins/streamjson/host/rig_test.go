package host_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dsh/kernel/kerneltest"
	"dsh/plugins/streamjson/host"
	"dsh/sdkproto/ndjson"
	"dsh/sdkproto/wirejson"
)

// limit is against hangs only.
const limit = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is the other side of a host, over pipes.
type client struct {
	t *testing.T
	*host.Host
	got chan request
	in  *os.File
	log *kerneltest.Log
}

// request is a line of the harness.
type request struct {
	Type    string          `json:"type"`
	ID      string          `json:"request_id"`
	Request json.RawMessage `json:"request"`
	line    string
}

// connect makes a host, the client of which is the test.
func connect(t *testing.T) *client {
	t.Helper()
	fromHarness, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, toHarness, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := ndjson.NewWriter(stdout, 0)
	c := &client{t: t, got: make(chan request, 1000), in: toHarness, log: &kerneltest.Log{}}
	c.Host = host.New(w.Frame, slog.New(slog.NewTextHandler(c.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	var both sync.WaitGroup
	both.Go(func() { // the client reads
		for lines := bufio.NewReader(fromHarness); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			r := request{line: line}
			if err := wirejson.Unmarshal([]byte(line), &r); err != nil {
				t.Errorf("the harness wrote %q: %v", line, err)
			}
			c.got <- r
		}
	})
	both.Go(func() { // the harness reads
		for lines := bufio.NewReader(stdin); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				c.Close()
				return
			}
			var m struct {
				Response json.RawMessage `json:"response"`
			}
			if err := wirejson.Unmarshal(line, &m); err != nil {
				t.Errorf("the client wrote %q: %v", line, err)
			}
			c.Answer(m.Response)
		}
	})
	t.Cleanup(func() {
		toHarness.Close()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Error(err)
		}
		stdout.Close()
		both.Wait()
		fromHarness.Close()
		stdin.Close()
		if t.Failed() {
			t.Log(c.log)
		}
	})
	return c
}

// next is the next line of the harness.
func (c *client) next() request {
	c.t.Helper()
	select {
	case r := <-c.got:
		return r
	case <-time.After(limit):
		c.t.Fatal("the harness wrote nothing")
		return request{}
	}
}

// quiet makes sure that the harness has written nothing more: a line that is
// written now is the next one.
func (c *client) quiet() {
	c.t.Helper()
	if !c.Open() {
		select {
		case r := <-c.got:
			c.t.Fatalf("after the end the harness wrote %s", r.line)
		case <-time.After(50 * time.Millisecond):
		}
		return
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.Ask(ctx, map[string]string{"subtype": "marker"})
		done <- err
	}()
	r := c.next()
	if got := r.subtype(); got != "marker" {
		c.t.Fatalf("unexpected line %s", r.line)
	}
	c.answer(r.ID, `{}`)
	if err := <-done; err != nil {
		c.t.Fatal(err)
	}
}

func (r request) subtype() string {
	var m struct {
		Subtype string `json:"subtype"`
	}
	_ = wirejson.Unmarshal(r.Request, &m)
	return m.Subtype
}

// answer answers a request with an inner response.
func (c *client) answer(id, response string) {
	c.t.Helper()
	c.write(fmt.Sprintf(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":%s}}`, id, response))
}

func (c *client) refuse(id, text string) {
	c.t.Helper()
	c.write(fmt.Sprintf(`{"type":"control_response","response":{"subtype":"error","request_id":%q,"error":%q}}`, id, text))
}

func (c *client) write(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hangUp closes the client's end.
func (c *client) hangUp() {
	c.t.Helper()
	c.in.Close()
	for deadline := time.Now().Add(limit); c.Open(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatal("the host has not noticed the end")
		}
	}
}

// asked is the outcome of a question.
type asked struct {
	response string
	err      error
}

// ask puts a question and gives where its outcome comes.
func (c *client) ask(ctx context.Context, request any) <-chan asked {
	done := make(chan asked, 1)
	go func() {
		response, err := c.Ask(ctx, request)
		done <- asked{string(response), err}
	}()
	return done
}

func wait[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(limit):
		t.Fatal("waited in vain")
		panic("not reached")
	}
}
