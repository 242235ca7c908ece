package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dsh/sdkproto/wirejson"
)

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// room is where one program runs: an empty workspace and homes of its own.
type room struct {
	t              *testing.T
	root, work     string
	home, settings string
	env            []string
}

func newRoom(t *testing.T) *room {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &room{t: t, root: root, work: filepath.Join(root, "work"), home: filepath.Join(root, "home"), settings: filepath.Join(root, "config")}
	if err := os.Mkdir(r.work, 0o755); err != nil {
		t.Fatal(err)
	}
	r.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "TMPDIR=" + os.TempDir(), "DSH_HOME=" + r.home, "CLAUDE_CONFIG_DIR=" + r.settings}
	return r
}

// script has the scripted model follow a YAML text.
func (r *room) script(yaml string) *room {
	r.t.Helper()
	path := filepath.Join(r.root, "model.yaml")
	r.write(path, yaml)
	r.env = append(r.env, "DSH_SCRIPT="+path)
	return r
}

// set adds a variable to the environment.
func (r *room) set(name, value string) *room {
	r.env = append(r.env, name+"="+value)
	return r
}

func (r *room) write(path, text string) {
	r.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.work, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) exists(name string) bool {
	_, err := os.Stat(filepath.Join(r.work, name))
	return err == nil
}

// streamFlags is the launch form of spec stream-json 1.1.
var streamFlags = []string{"--input-format", "stream-json", "--output-format", "stream-json", "--verbose"}

// host is a program that drives dcl: it checks every line that it reads.
type host struct {
	t     *testing.T
	room  *room
	cmd   *exec.Cmd
	stdin io.WriteCloser
	// stdout is the end of the program's output that is read.
	stdout io.Closer

	mu     sync.Mutex
	lines  []object
	raw    []string
	errors []string // what was wrong with lines
	ended  bool     // stdout has ended
	came   chan struct{}
	stderr bytes.Buffer
	exited chan struct{}
	// long says that lines may have any length: a model's text is not shortened.
	long bool
	// answer replies to the program's control requests; nil leaves them open.
	answer func(id string, request object) (response any)
}

// start runs dcl with the stream-json flags and more.
func (r *room) start(flags ...string) *host {
	r.t.Helper()
	return r.run(slices.Concat(streamFlags, flags)...)
}

// run starts dcl with exactly these arguments.
func (r *room) run(args ...string) *host {
	r.t.Helper()
	return r.runWith(nil, args...)
}

// startWith is start with changes of what is about to be run.
func (r *room) startWith(change func(*host), flags ...string) *host {
	r.t.Helper()
	return r.runWith(change, slices.Concat(streamFlags, flags)...)
}

func (r *room) runWith(change func(*host), args ...string) *host {
	r.t.Helper()
	h := &host{t: r.t, room: r, came: make(chan struct{}, 1), exited: make(chan struct{})}
	h.cmd = exec.Command(binary(r.t), args...)
	h.cmd.Dir, h.cmd.Env = r.work, r.env
	var err error
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	h.cmd.Stderr = &lockedWriter{mu: &h.mu, w: &h.stderr}
	if change != nil {
		change(h)
	}
	if err := h.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	h.stdout = stdout
	go h.read(stdout)
	r.t.Cleanup(func() {
		_ = h.stdin.Close()
		select {
		case <-h.exited:
		case <-time.After(patience):
			_ = h.cmd.Process.Kill()
			r.t.Errorf("dcl does not end with its input")
			<-h.exited
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, fault := range h.errors {
			r.t.Errorf("output: %s", fault)
		}
		if r.t.Failed() {
			r.t.Logf("lines:\n%s\nstderr:\n%s", strings.Join(h.raw, "\n"), h.stderr.String())
		}
	})
	return h
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

func (h *host) read(stdout io.Reader) {
	defer close(h.exited)
	in := bufio.NewReader(stdout)
	seen := map[string]bool{}
	for {
		raw, err := in.ReadBytes('\n')
		if len(raw) > 0 {
			line, faults := judge(bytes.TrimSuffix(raw, []byte("\n")))
			if id, _ := line["uuid"].(string); id != "" && line["isReplay"] == nil {
				if seen[id] {
					faults = append(faults, "uuid "+id+" is there twice")
				}
				seen[id] = true
			}
			h.mu.Lock()
			h.lines, h.raw = append(h.lines, line), append(h.raw, string(bytes.TrimSpace(raw)))
			h.errors = append(h.errors, h.but(faults)...)
			answer := h.answer
			h.mu.Unlock()
			if answer != nil && line["type"] == "control_request" {
				id, _ := line["request_id"].(string)
				request, _ := line["request"].(object)
				if reply := answer(id, request); reply != nil {
					h.respond(id, reply)
				}
			}
		}
		if err != nil {
			h.mu.Lock()
			h.ended = true
			h.mu.Unlock()
		}
		select {
		case h.came <- struct{}{}:
		default:
		}
		if err != nil {
			_ = h.cmd.Wait()
			return
		}
	}
}

// but leaves out what the test allows.
func (h *host) but(faults []string) []string {
	return slices.DeleteFunc(faults, func(f string) bool { return h.long && strings.HasPrefix(f, faultLong) })
}

// failure is an error answer to a control request.
type failure string

// respond answers a control request of the program.
func (h *host) respond(id string, reply any) {
	response := object{"subtype": "success", "request_id": id, "response": reply}
	if text, bad := reply.(failure); bad {
		response = object{"subtype": "error", "request_id": id, "error": string(text)}
	}
	h.send(object{"type": "control_response", "response": response})
}

// answering sets how the host answers control requests, by subtype.
func (h *host) answering(answers map[string]func(request object) any) *host {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = func(_ string, request object) any {
		subtype, _ := request["subtype"].(string)
		if f := answers[subtype]; f != nil {
			return f(request)
		}
		return failure("Unsupported control request subtype: " + subtype)
	}
	return h
}

// send writes a line; a string is written as it is.
func (h *host) send(line any) {
	raw, isText := line.(string)
	if !isText {
		encoded, err := wirejson.Marshal(line)
		if err != nil {
			panic(err)
		}
		raw = string(encoded)
	}
	// A program that has ended is seen by whoever waits for its lines.
	_, _ = io.WriteString(h.stdin, raw+"\n")
}

// user sends a user message.
func (h *host) user(text string) {
	h.send(object{"type": "user", "session_id": "default", "parent_tool_use_id": nil, "message": object{"role": "user", "content": text}})
}

// control sends a control request and gives the answer's response object.
func (h *host) control(id, subtype string, more object) object {
	h.t.Helper()
	request := object{"subtype": subtype}
	for k, v := range more {
		request[k] = v
	}
	h.send(object{"type": "control_request", "request_id": id, "request": request})
	line := h.wait("the answer to "+subtype, func(l object) bool {
		response, _ := l["response"].(object)
		return l["type"] == "control_response" && response["request_id"] == id
	})
	response, _ := line["response"].(object)
	return response
}

// wait gives the first line, from the beginning, that is what is wanted.
func (h *host) wait(what string, wanted func(object) bool) object {
	h.t.Helper()
	deadline := time.After(patience)
	for from := 0; ; {
		h.mu.Lock()
		for ; from < len(h.lines); from++ {
			if wanted(h.lines[from]) {
				line := h.lines[from]
				h.mu.Unlock()
				return line
			}
		}
		ended := h.ended
		h.mu.Unlock()
		if ended {
			h.t.Fatalf("dcl ended without %s", what)
		}
		select {
		case <-h.came:
		case <-deadline:
			h.t.Fatalf("no %s", what)
		}
	}
}

// result waits for the n-th result, from 1.
func (h *host) result(n int) object {
	h.t.Helper()
	var count int
	return h.wait("result", func(l object) bool {
		if l["type"] == "result" {
			count++
			return count == n
		}
		return false
	})
}

// of gives the lines of a type, with / and a subtype if need be, in order.
func (h *host) of(kind string) (list []object) {
	typ, subtype, _ := strings.Cut(kind, "/")
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lines {
		if l["type"] == typ && (subtype == "" || l["subtype"] == subtype) {
			list = append(list, l)
		}
	}
	return list
}

// all gives every line so far.
func (h *host) all() []object {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lines)
}

// end closes the program's input and gives its exit code.
func (h *host) end() int {
	h.t.Helper()
	_ = h.stdin.Close()
	return h.exit()
}

// exit waits for the program's end.
func (h *host) exit() int {
	h.t.Helper()
	select {
	case <-h.exited:
	case <-time.After(patience):
		h.t.Fatal("dcl does not end")
	}
	return h.cmd.ProcessState.ExitCode()
}

func (h *host) errorOutput() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stderr.String()
}

// block gives the only content block of a line.
func block(line object) object {
	m, _ := line["message"].(object)
	content, _ := m["content"].([]any)
	if len(content) != 1 {
		return nil
	}
	b, _ := content[0].(object)
	return b
}

// dig gives a member of a member.
func dig(o object, path ...string) any {
	var v any = o
	for _, name := range path {
		inner, ok := v.(object)
		if !ok {
			return nil
		}
		v = inner[name]
	}
	return v
}

// binary gives the path of the dcl that TestMain put there.
func binary(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("dcl")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
