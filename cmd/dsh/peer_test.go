package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"dsh/sdkproto/wirejson"
)

// patience bounds every wait of a test for the program. Nothing is measured by
// it: a wait that lasts so long is a hang.
const patience = 30 * time.Second

// longestLine is what a line of stream-json stays below, in bytes (checklist 8).
const longestLine = 1_000_000

// entry is one line of a conversation, or a note about the process.
type entry struct {
	kind  entryKind
	line  []byte // without its newline; the text of a note
	value any    // the line as JSON; nil for a line that is no JSON
	// write counts the writes of the client: lines of one write share it.
	write int
}

type entryKind byte

const (
	note entryKind = iota
	sent
	received
)

// peer is a running program under conversation. All methods but its own
// goroutines' are called by one goroutine.
type peer struct {
	cmd    *exec.Cmd
	in     *os.File
	stderr string // path of what it writes there
	logged int    // how far the word log has read it

	mu      sync.Mutex
	entries []entry
	rules   wireRules
	broken  error         // the first rule that the program broke
	ended   bool          // its standard output has ended
	changed chan struct{} // closed and replaced at every change

	exited chan struct{}
	writes int
	cursor int // entries before it are behind `expect`
	shown  int // entries before it are in a transcript already
}

// startPeer runs a program in dir with its three descriptors in hand; what it
// writes to standard error goes to the file stderr.
func startPeer(name string, args, env []string, dir, stderr string) (*peer, error) {
	p, out, err := startUnread(name, args, env, dir, stderr)
	if err == nil {
		go p.read(out)
	}
	return p, err
}

// startUnread is startPeer without anybody who reads; out is standard output.
func startUnread(name string, args, env []string, dir, stderr string) (p *peer, out *os.File, err error) {
	errFile, err := os.Create(stderr)
	if err != nil {
		return nil, nil, err
	}
	defer errFile.Close()
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer childIn.Close()
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	defer childOut.Close()

	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, childOut, errFile
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, in.Close(), out.Close())
	}
	p = &peer{
		cmd: cmd, in: in, stderr: stderr, rules: newWireRules(),
		changed: make(chan struct{}), exited: make(chan struct{}),
	}
	p.rules.stream = filepath.Base(name) == "dcl" || strings.Contains(strings.Join(args, " "), "stream-json")
	p.note(strings.Join(append([]string{filepath.Base(name)}, args...), " "))
	go func() {
		_ = cmd.Wait() // the state tells
		close(p.exited)
	}()
	return p, out, nil
}

func (p *peer) read(out *os.File) {
	defer out.Close()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		p.mu.Lock()
		if len(line) > 0 {
			p.take(line)
		}
		if err != nil {
			p.ended = true
			if !errors.Is(err, io.EOF) {
				p.breaks(fmt.Errorf("standard output: %w", err))
			}
		}
		p.touch()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take files a line of standard output; p.mu is held.
func (p *peer) take(line []byte) {
	e := entry{kind: received, line: bytes.TrimSuffix(line, []byte("\n"))}
	err := wirejson.Unmarshal(e.line, &e.value)
	p.entries = append(p.entries, e)
	if p.writes == 0 {
		return // not (yet) a conversation: a person may read this
	}
	if len(e.line) == len(line) {
		p.breaks(fmt.Errorf("the last line of standard output has no end: %.200q", line))
	}
	if err != nil {
		p.breaks(fmt.Errorf("a line of standard output is no JSON: %w: %.200q", err, line))
		return
	}
	if p.rules.stream && (len(e.line) >= longestLine || bytes.ContainsAny(e.line, "\u2028\u2029")) {
		p.breaks(fmt.Errorf("a line of %d bytes, or with a separator that some readers take for the end of a line: %.200q", len(e.line), e.line))
	}
	if err := p.rules.received(e.value); err != nil {
		p.breaks(fmt.Errorf("%w: %.300s", err, e.line))
	}
}

func (p *peer) breaks(err error) {
	if p.broken == nil {
		p.broken = err
	}
}

func (p *peer) touch() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *peer) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries = append(p.entries, entry{kind: note, line: []byte(text)})
}

// send writes raw bytes, which may be several lines, in one write.
func (p *peer) send(raw []byte) error { return p.sendCut(raw, len(raw), 0) }

// sendCut writes raw bytes in writes of size bytes, with a pause behind each.
func (p *peer) sendCut(raw []byte, size int, pause time.Duration) error {
	p.mu.Lock()
	p.writes++
	for line := range bytes.SplitSeq(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n")) {
		e := entry{kind: sent, line: line, write: p.writes}
		if err := wirejson.Unmarshal(bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff"))), &e.value); err == nil {
			p.rules.sent(e.value)
		}
		p.entries = append(p.entries, e)
	}
	p.mu.Unlock()
	for part := range slices.Chunk(raw, max(1, size)) {
		if err := p.in.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := p.in.Write(part); err != nil {
			return p.failure(fmt.Sprintf("write to the program: %v", err))
		}
		time.Sleep(pause)
	}
	return nil
}

func (p *peer) closeInput() error {
	p.note("end of input")
	return p.in.Close()
}

// wait blocks until cond, which sees all entries under the lock, holds. It fails
// when the program broke a rule of the wire, when its output ended without cond,
// and when patience ends.
func (p *peer) wait(what string, cond func(all []entry) bool) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		ok, broken, ended, changed := cond(p.entries), p.broken, p.ended, p.changed
		p.mu.Unlock()
		switch {
		case broken != nil:
			return p.failure(broken.Error())
		case ok:
			return nil
		case ended:
			return p.failure("standard output ended before " + what)
		}
		select {
		case <-changed:
		case <-timeout.C:
			return p.failure("waited too long for " + what)
		}
	}
}

// expect waits for the next line at or behind the cursor that matches, and puts
// the cursor behind it.
func (p *peer) expect(pattern any) error {
	return p.wait("a line like "+show(pattern), func(all []entry) bool {
		for i, e := range all[p.cursor:] {
			if e.kind == received && matches(pattern, e.value) {
				p.cursor += i + 1
				return true
			}
		}
		return false
	})
}

// answer waits for the answer to a request, wherever it stands, and gives it.
func (p *peer) answer(id any) (frame any, err error) {
	err = p.wait("the answer to "+show(id), func(all []entry) bool {
		for _, e := range all {
			if e.kind == received && matches(map[string]any{"id": id}, e.value) {
				frame = e.value
				return true
			}
		}
		return false
	})
	return frame, err
}

// lines gives what was received so far.
func (p *peer) lines() []entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []entry
	for _, e := range p.entries {
		if e.kind == received {
			out = append(out, e)
		}
	}
	return out
}

// killed is the exit code of a process that kill -9 ended.
const killed = -1

// exitCode waits for the end of the process and of its standard output, and
// gives the code. A child that inherited the descriptor would keep the latter
// open (spec jsonrpc 0.3 point 7).
func (p *peer) exitCode() (int, error) {
	select {
	case <-p.exited:
	case <-time.After(patience):
		return 0, p.failure("the process does not end")
	}
	if err := p.wait("", func([]entry) bool { return p.ended }); err != nil {
		return 0, fmt.Errorf("after the process ended: %w", err)
	}
	_ = p.in.Close() // a second time, perhaps
	p.note(p.cmd.ProcessState.String())
	if p.cmd.ProcessState.String() == "signal: killed" {
		return killed, nil
	}
	return p.cmd.ProcessState.ExitCode(), nil
}

func (p *peer) wantExit(code int) error {
	got, err := p.exitCode()
	if err == nil && got != code {
		err = p.failure(fmt.Sprintf("the process ended with code %d, want %d", got, code))
	}
	return err
}

// kill ends the process as kill -9 does and waits for it.
func (p *peer) kill() error {
	p.note("kill -9")
	if err := p.cmd.Process.Kill(); err != nil {
		return p.failure(err.Error())
	}
	return p.wantExit(killed)
}

// abandon leaves nothing behind, whatever state the process is in.
func (p *peer) abandon() {
	_ = p.cmd.Process.Kill()
	<-p.exited
	_ = p.in.Close()
}

// failure explains what went wrong with the whole conversation.
func (p *peer) failure(what string) error {
	const widest = 600
	var b strings.Builder
	b.WriteString(what)
	p.mu.Lock()
	for _, e := range p.entries {
		line := e.line
		if len(line) > widest {
			line = append(slices.Clone(line[:widest]), "..."...)
		}
		fmt.Fprintf(&b, "\n%s %s", e.kind.arrow(), line)
	}
	p.mu.Unlock()
	stderr, err := os.ReadFile(p.stderr)
	if err != nil {
		fmt.Fprintf(&b, "\n%v", err)
	}
	fmt.Fprintf(&b, "\nstandard error:\n%s", stderr)
	return errors.New(b.String())
}

func (k entryKind) arrow() string {
	switch k {
	case sent:
		return "-->"
	case received:
		return "<--"
	}
	return "---"
}
