package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dsh/sdkproto"
	"dsh/sdkproto/client"
)

// serverVariable makes the test binary a server; its value says which.
const serverVariable = "DSH_CLIENT_TEST_SERVER"

// serveProcess is the server's process.
func serveProcess(role string) (code int) {
	p := newPeer(os.Stdin, os.Stdout)
	handle := func(r request) bool {
		switch r.Method {
		case sdkproto.MethodSessionPrompt:
			p.send(receipt("S", "M"))
			p.answer(r, `{"messageId":"M"}`)
			for _, piece := range []string{"h", "i"} {
				p.send(event("S", "assistant/chunk", fmt.Sprintf(`{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":%q}}`, piece)))
			}
			p.send(answered("S", "hi"), turnEnd("S", completed), status("S", "idle"))
		case "where":
			dir, _ := os.Getwd()
			p.answer(r, fmt.Sprintf(`{"dir":%q,"args":%q,"env":%q}`, dir, strings.Join(os.Args[1:], " "), os.Getenv("DSH_CLIENT_TEST_VALUE")))
		case "die":
			fmt.Fprintln(os.Stderr, "dying")
			p.send(status("S", "running"))
			os.Exit(7)
		case "close output":
			os.Stdout.Close()
		case "grandchild":
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), serverVariable+"=sleeper")
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			pipe, err := cmd.StdinPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				panic(err)
			}
			_ = pipe // its end of input is the end of this process, 10 s later
			p.answer(r, fmt.Sprintf(`{"pid":%d}`, cmd.Process.Pid))
		}
		return true
	}
	switch role {
	case "plain":
		p.serve(handle)
	case "extended":
		r, _ := p.next()
		p.answer(r, offered(sdkproto.NotifyHeartbeat, sdkproto.NotifyPromptFinished, sdkproto.NotifyTreeStatus))
		p.serve(func(r request) bool {
			p.send(receipt("S", "M"), status("S", "running"), started("S", "S1"), answered("S", "begun"), turnEnd("S", completed), promptFinished("S", "M", "begun"),
				status("S", "idle"), answered("S1", "found"), status("S", "running"), answered("S", "done"), turnEnd("S", completed), status("S", "idle"), treeStatus("S", "idle"))
			p.answer(r, `{"messageId":"M"}`)
			return true
		})
	case "echo init": // refuses initialize, telling what it was
		r, _ := p.next()
		fmt.Fprintln(os.Stderr, "about to refuse")
		p.refuse(r, -32602, string(r.Params))
		p.serve(handle)
		return 4
	case "boot failure":
		fmt.Fprintln(os.Stderr, "dsh: plugin tree failed to load: store")
		return 1
	case "silent":
		signal.Ignore(terminateSignal)
		io.Copy(io.Discard, os.Stdin)
		time.Sleep(time.Minute)
	case "noisy":
		for i := range 20_000 {
			fmt.Fprintf(os.Stderr, "line %d\n", i)
		}
		p.serve(handle)
		return 3
	case "ignores the end":
		p.serve(handle)
		time.Sleep(time.Minute)
	case "ignores everything":
		signal.Ignore(terminateSignal)
		p.serve(handle)
		time.Sleep(time.Minute)
	case "ends when told":
		told := make(chan os.Signal, 1)
		signal.Notify(told, terminateSignal)
		go p.serve(handle)
		<-told
		fmt.Fprintln(os.Stderr, "told")
	case "sleeper":
		io.Copy(io.Discard, os.Stdin)
		time.Sleep(10 * time.Second)
	}
	return 0
}

// child starts the test binary as a server.
func child(role string) client.Options {
	return client.Options{
		Command: os.Args[0],
		Env:     append(os.Environ(), serverVariable+"="+role),
	}
}

func start(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(deadline(t)) })
	return c
}

func TestStart(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := child("plain")
	o.Args = []string{"--profile", "sdk"}
	o.Dir = dir
	o.Env = append(o.Env, "DSH_CLIENT_TEST_VALUE=v")
	c := start(t, o)
	if c.PID() == 0 || c.Server.Name != "deepseek-harness-sdk-runtime" {
		t.Errorf("pid %d, server %+v", c.PID(), c.Server)
	}
	var where struct {
		Dir  string `json:"dir"`
		Args string `json:"args"`
		Env  string `json:"env"`
	}
	if err := c.Call(t.Context(), "where", nil, &where); err != nil {
		t.Fatal(err)
	}
	if where.Dir != dir || where.Args != "--profile sdk" || where.Env != "v" {
		t.Errorf("process runs as %+v", where)
	}
	run, err := c.Session("S").Run(t.Context(), sdkproto.Text("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if result, err := run.Result(deadline(t)); err != nil || result.FinalText != "hi" {
		t.Errorf("result %+v, %v", result, err)
	}
	for range 2 {
		if err := c.Close(deadline(t)); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func TestStartFails(t *testing.T) {
	t.Run("no command", func(t *testing.T) {
		if _, err := client.Start(t.Context(), client.Options{}); err == nil {
			t.Error("started")
		}
	})
	t.Run("unknown command", func(t *testing.T) {
		_, err := client.Start(t.Context(), client.Options{Command: filepath.Join(t.TempDir(), "nothing")})
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("start: %v", err)
		}
	})
	t.Run("ended context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := client.Start(ctx, child("plain")); !errors.Is(err, context.Canceled) {
			t.Errorf("start: %v", err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		o := child("echo init")
		o.Dir = t.TempDir()
		_, err := client.Start(t.Context(), o)
		var refusal *sdkproto.RPCError
		var exit *client.ExitError
		if !errors.As(err, &refusal) || !errors.As(err, &exit) {
			t.Fatalf("start: %v", err)
		}
		// The working directory is that of the process unless one is given.
		if want := fmt.Sprintf(`{"cwd":%q,"provider":"","model":""}`, o.Dir); refusal.Message != want {
			t.Errorf("initialize %s, want %s", refusal.Message, want)
		}
		if exit.Code != 4 || exit.Stderr != "about to refuse\n" {
			t.Errorf("exit %+v", exit)
		}
		for _, part := range []string{o.Command, refusal.Message, "exit status 4", "about to refuse"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q lacks %q", err, part)
			}
		}
	})
	t.Run("boot failure", func(t *testing.T) {
		_, err := client.Start(t.Context(), child("boot failure"))
		var exit *client.ExitError
		if !errors.As(err, &exit) || exit.Code != 1 || !strings.Contains(err.Error(), "plugin tree failed to load: store") {
			t.Errorf("start: %v", err)
		}
	})
	t.Run("no answer", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := client.Start(ctx, child("silent"))
		var exit *client.ExitError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &exit) || exit.Code == 0 {
			t.Errorf("start: %v", err)
		}
	})
}

// TestProcessDies: everybody who waits gets the exit code and the stderr, after
// what the server had sent.
func TestProcessDies(t *testing.T) {
	c := start(t, child("plain"))
	all := c.Notifications(t.Context())
	err := c.Call(deadline(t), "die", nil, nil)
	check := func(what string, err error) {
		t.Helper()
		var exit *client.ExitError
		if !errors.As(err, &exit) || !errors.Is(err, client.ErrLost) {
			t.Errorf("%s: %v", what, err)
			return
		}
		if exit.Code != 7 || exit.Stderr != "dying\n" {
			t.Errorf("%s: %+v", what, exit)
		}
	}
	check("call", err)
	got, err := names(all)
	check("notifications", err)
	if len(got) != 1 || got[0] != "S running" {
		t.Errorf("notifications %v", got)
	}
	check("new call", c.Call(t.Context(), "x", nil, nil))
	for range 2 {
		check("close", c.Close(deadline(t)))
	}
}

// TestStderr: a writer gets all of it, an error its end.
func TestStderr(t *testing.T) {
	var all strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&all, "line %d\n", i)
	}
	tests := []struct {
		name   string
		stderr *sink
		want   string
	}{
		{"copied", &sink{}, all.String()},
		{"writer that fails", &sink{fails: true}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := child("noisy")
			o.Stderr = tt.stderr
			c := start(t, o)
			var exit *client.ExitError
			if err := c.Close(deadline(t)); !errors.As(err, &exit) {
				t.Fatalf("close: %v", err)
			}
			if exit.Code != 3 {
				t.Errorf("exit code %d", exit.Code)
			}
			if got := tt.stderr.buf.String(); got != tt.want {
				t.Errorf("writer got %d bytes, want %d", len(got), len(tt.want))
			}
			if len(exit.Stderr) > 64<<10 || len(exit.Stderr) < 63<<10 || !strings.HasSuffix(all.String(), exit.Stderr) || !strings.HasPrefix(exit.Stderr, "line ") {
				t.Errorf("kept %d bytes from %.20q", len(exit.Stderr), exit.Stderr)
			}
			if text := exit.Error(); len(text) > 3000 || !strings.HasSuffix(text, "line 19999") {
				t.Errorf("error of %d bytes", len(text))
			}
		})
	}
}

type sink struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	fails bool
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails {
		return 0, io.ErrShortWrite
	}
	return s.buf.Write(p)
}

// TestStderrBlocks: a writer that does not return is left behind, and Close
// says so.
func TestStderrBlocks(t *testing.T) {
	release := make(chan struct{})
	o := child("plain")
	o.Stderr = blocker(release)
	c := start(t, o)
	var exit *client.ExitError
	if err := c.Call(deadline(t), "die", nil, nil); !errors.As(err, &exit) || exit.Stderr != "dying\n" {
		t.Errorf("call: %v", err)
	}
	if err := c.Close(deadline(t)); !errors.As(err, &exit) || !strings.Contains(err.Error(), "Options.Stderr") {
		t.Errorf("close: %v", err)
	}
	close(release)
}

type blocker chan struct{}

func (b blocker) Write(p []byte) (int, error) {
	<-b
	return len(p), nil
}

// TestOutputCloses: a server without an output is lost, even if it lives.
func TestOutputCloses(t *testing.T) {
	c := start(t, child("plain"))
	var exit *client.ExitError
	if err := c.Call(deadline(t), "close output", nil, nil); !errors.Is(err, client.ErrLost) || errors.As(err, &exit) {
		t.Errorf("call: %v", err)
	}
	if err := c.Close(deadline(t)); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestGrandchild: one that holds the pipes of the server hides its death from
// nobody (spec jsonrpc 0.3, row 7).
func TestGrandchild(t *testing.T) {
	c := start(t, child("plain"))
	var result struct {
		PID int `json:"pid"`
	}
	if err := c.Call(t.Context(), "grandchild", nil, &result); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p, err := os.FindProcess(result.PID); err == nil {
			p.Kill()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	var exit *client.ExitError
	if err := c.Call(ctx, "die", nil, nil); !errors.As(err, &exit) || exit.Code != 7 || exit.Stderr != "dying\n" {
		t.Errorf("call: %v", err)
	}
}

// TestExitErrorText: an error shows the end of stderr, and not too much of it.
func TestExitErrorText(t *testing.T) {
	if text := (&client.ExitError{Status: "exit status 1", Stderr: strings.Repeat("é", 10_000)}).Error(); len(text) > 2500 || strings.ContainsRune(text, '\ufffd') {
		t.Errorf("error of %d bytes: %.60q", len(text), text)
	}
	if text := (&client.ExitError{Status: "exit status 1"}).Error(); text != "server ended with exit status 1; nothing on its stderr" {
		t.Errorf("error %q", text)
	}
	var lines int
	for s := bufio.NewScanner(strings.NewReader((&client.ExitError{Stderr: strings.Repeat("a\n", 100)}).Error())); s.Scan(); {
		lines++
	}
	if lines != 20 {
		t.Errorf("error of %d lines", lines)
	}
}
