package toollsp

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/tool"
	"dsh/plugins/sandboxlandlock"
)

// alive says whether a process runs; one that is dead and not yet waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func readPid(x *rig, file string) (pid int) {
	x.T.Helper()
	x.eventually("there is "+file, func() bool {
		data, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(string(data))
		return err == nil
	})
	return pid
}

// serverPid is the process of the server that was started first.
func serverPid(x *rig) int {
	x.T.Helper()
	data, err := os.ReadFile(x.log)
	if err != nil {
		x.T.Fatal(err)
	}
	var first struct{ Started int }
	line, _, _ := strings.Cut(string(data), "\n")
	if err := json.Unmarshal([]byte(line), &first); err != nil || first.Started == 0 {
		x.T.Fatalf("the server left no number: %v", err)
	}
	return first.Started
}

// TestEnd: with the row everything ends that came from its servers, also what left the
// process group and a server that does not want to, and in time (decision R13).
func TestEnd(t *testing.T) {
	for name, sc := range map[string]script{
		"willing":            {},
		"unwilling":          {Stay: true},
		"hangs":              {Hang: []string{"shutdown"}, Stay: true},
		"hangs when started": {Hang: []string{"initialize"}, Stay: true},
	} {
		t.Run(name, func(t *testing.T) {
			sc.Answers, sc.Leave = hello, filepath.Join(t.TempDir(), "pid")
			c, log := config(t, sc)
			owner := kernel.NewOwner(context.Background(), "row lsp")
			root := kernel.NewRoot(owner)
			x := compose(t, Params{Config: c}, log)
			// A row of its own, which ends before the test does.
			tools := tool.NewRegistry()
			x.l = New(Params{Config: c, Tools: tools, Self: kernel.Instance{ID: "lsp", Owner: owner, Root: root}})
			if err := x.l.register(); err != nil {
				t.Fatal(err)
			}
			x.View = tools.View(nil)
			x.Put("a.x", "name\n")
			done := make(chan tool.Result)
			go func() { done <- x.invoke(t.Context(), at(opHover, "a.x", 1, 1), tool.Invocation{}) }()
			pid := readPid(x, sc.Leave)
			if !strings.HasPrefix(name, "hangs when") {
				if res := <-done; x.text(res) != "hello" {
					t.Fatalf("got %s", x.text(res))
				}
			}
			if !alive(pid) {
				t.Fatal("the program that the server left is not there")
			}
			server := serverPid(x)
			if !alive(server) {
				t.Fatal("the server is not there")
			}
			ctx, cancel := context.WithTimeout(context.Background(), kernel.QuiesceLimit+kernel.ReleaseLimit)
			defer cancel()
			if err := root.Quiesce(ctx); err != nil {
				t.Error(err)
			}
			if err := owner.Close(ctx); err != nil {
				t.Error(err)
			}
			// The system may take a moment to bury what has ended.
			x.eventually("nothing is left", func() bool { return !alive(pid) && !alive(server) })
			if strings.HasPrefix(name, "hangs when") {
				if res := <-done; !res.IsError {
					t.Errorf("got %s", x.text(res))
				}
			}
			if res := x.invoke(t.Context(), at(opHover, "a.x", 1, 1), tool.Invocation{}); !res.IsError {
				t.Errorf("a call after the end: %s", x.text(res))
			}
		})
	}
}

// TestLeft: what a server leaves behind when it dies is ended, too.
func TestLeft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	x := setUp(t, script{Answers: hello, Crash: []string{"textDocument/references"}, Leave: file})
	x.Put("a.x", "name\n")
	isHello(x, at(opHover, "a.x", 1, 1))
	pid := readPid(x, file)
	x.Bad("LSP", at(opReferences, "a.x", 1, 1), codeFailed, "exit status 3")
	x.eventually("nothing is left", func() bool { return !alive(pid) })
}

// TestHeld: the confinement of a call holds for the server that it starts.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	c, _ := config(t, script{Log: log, Answers: hello, Crash: []string{"textDocument/references"}, Once: filepath.Join(t.TempDir(), "once")})
	x := compose(t, Params{Config: c, Confiner: sandboxlandlock.New(sandboxlandlock.Params{})}, log)
	x.Put("a.x", "name\n")
	confined := tool.Invocation{Confinement: &process.Confinement{Mode: process.WorkspaceWrite, Write: []string{dir}, Strict: true}}
	if res := x.invoke(t.Context(), at(opHover, "a.x", 1, 1), confined); x.text(res) != "hello" {
		t.Fatalf("got %s", x.text(res))
	}
	// The server cannot write its mark, so it dies each time.
	if res := x.invoke(t.Context(), at(opReferences, "a.x", 1, 1), confined); !res.IsError {
		t.Errorf("the server wrote outside: %s", x.text(res))
	}
}
