package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// stage is what the commands of one script share. A script holds a conversation
// with one process at a time; `peer NAME` changes to another.
//
// A script's home is $WORK/home, the working directory of its sessions $WORK/ws,
// and a file model.yaml of the script is what the scripted model follows.
type stage struct {
	transcript *transcript
	peers      map[string]*peer
	current    string
	past       strings.Builder // transcript of processes that were replaced
	streamed   []entry         // what they sent
	started    int
	prompts    int
}

type stageKey struct{}

func setup(env *testscript.Env) error {
	s := &stage{transcript: newTranscript(env.WorkDir), peers: map[string]*peer{}}
	env.Values[stageKey{}] = s
	env.Defer(func() {
		for _, p := range s.peers {
			p.abandon()
		}
	})
	env.Setenv("DSH_HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("HOME", filepath.Join(env.WorkDir, "user")) // where the transcripts of dcl go
	deployments, err := filepath.Abs("../../testdata/profiles")
	if err != nil {
		return err
	}
	env.Setenv("DEPLOYMENTS", deployments)
	model := filepath.Join(env.WorkDir, "model.yaml")
	if _, err := os.Stat(model); err == nil {
		env.Setenv("DSH_SCRIPT", model)
	}
	return os.MkdirAll(filepath.Join(env.WorkDir, "ws"), 0o700)
}

// words are those of a script beside those of testscript.
func words() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	all := map[string]func(ts *testscript.TestScript, neg bool, args []string){}
	for name, do := range map[string]func(c call) error{
		"run":        call.run,
		"start":      call.start,
		"peer":       call.peer,
		"initialize": call.initialize,
		"prompt":     call.prompt,
		"shutdown":   call.shutdown,
		"send":       call.send,
		"send-file":  call.sendFile,
		"answer":     call.answer,
		"event":      call.event,
		"status":     call.status,
		"rewind":     call.rewind,
		"count":      call.count,
		"pause":      call.pause,
		"signal":     call.signal,
		"eof":        call.eof,
		"log":        call.log,
		"exit":       call.exit,
		"await":      call.await,
		"stored":     call.stored,
		"requests":   call.requests,
		"transcript": call.showTranscript,
	} {
		all[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg {
				ts.Fatalf("%s cannot be negated", name)
			}
			c := call{ts, ts.Value(stageKey{}).(*stage), args}
			if err := do(c); err != nil {
				ts.Fatalf("%s: %v", name, err)
			}
		}
	}
	all["expect"] = func(ts *testscript.TestScript, neg bool, args []string) {
		c := call{ts, ts.Value(stageKey{}).(*stage), args}
		if err := c.expect(neg); err != nil {
			ts.Fatalf("expect: %v", err)
		}
	}
	return all
}

// call is one command of a script.
type call struct {
	ts    *testscript.TestScript
	stage *stage
	args  []string
}

func (c call) want(n int, usage string) error {
	if len(c.args) < n {
		return fmt.Errorf("usage: %s", usage)
	}
	return nil
}

func (c call) talk() (*peer, error) {
	p := c.stage.peers[c.stage.current]
	if p == nil {
		return nil, errors.New("no process was started")
	}
	return p, nil
}

// expand puts the work directory into JSON, where quotes keep testscript from
// doing it.
func (c call) expand(text string) string {
	return strings.ReplaceAll(text, "$WORK", c.ts.Getenv("WORK"))
}

func (c call) pattern(text string) (v any, err error) {
	if err := wirejson.Unmarshal([]byte(c.expand(text)), &v); err != nil {
		return nil, fmt.Errorf("pattern %s: %w", text, err)
	}
	return v, nil
}

// launch starts NAME=VALUE... PROGRAM ARGS... with the environment of the
// script and nothing of the test's own.
func (c call) launch(args []string) (*peer, error) {
	env := []string{
		"PATH=" + c.ts.Getenv("PATH"), "HOME=" + c.ts.Getenv("HOME"), "TMPDIR=" + c.ts.Getenv("TMPDIR"),
		"DSH_HOME=" + c.ts.Getenv("DSH_HOME"),
	}
	if script := c.ts.Getenv("DSH_SCRIPT"); script != "" {
		env = append(env, "DSH_SCRIPT="+script)
	}
	for len(args) > 0 && strings.Contains(args[0], "=") {
		env = append(env, args[0])
		args = args[1:]
	}
	if len(args) == 0 {
		return nil, errors.New("usage: [NAME=VALUE...] PROGRAM [ARG...]")
	}
	c.stage.started++
	stderr := c.ts.MkAbs(fmt.Sprintf("%s/stderr.%d", c.ts.Getenv("WORK"), c.stage.started))
	return startPeer(args[0], args[1:], env, c.ts.MkAbs("."), stderr)
}

// run CODE [NAME=VALUE...] PROGRAM ARGS... runs a program to its end with empty
// input; `stdout` and `stderr` then look at what it printed.
func (c call) run() error {
	if err := c.want(2, "run CODE [NAME=VALUE...] PROGRAM [ARG...]"); err != nil {
		return err
	}
	code, err := strconv.Atoi(c.args[0])
	if err != nil {
		return err
	}
	p, err := c.launch(c.args[1:])
	if err != nil {
		return err
	}
	defer p.abandon()
	if err := p.closeInput(); err != nil {
		return err
	}
	return c.end(p, code)
}

func (c call) end(p *peer, code int) error {
	if err := p.wantExit(code); err != nil {
		return err
	}
	for _, e := range p.lines() {
		fmt.Fprintf(c.ts.Stdout(), "%s\n", e.line)
	}
	stderr, err := os.ReadFile(p.stderr)
	if err != nil {
		return err
	}
	_, err = c.ts.Stderr().Write(stderr)
	return err
}

// start [NAME=VALUE...] PROGRAM ARGS... begins a conversation with a process.
// One that was under way must have ended.
func (c call) start() error {
	if old := c.stage.peers[c.stage.current]; old != nil {
		select {
		case <-old.exited:
		default:
			return errors.New("a process is running; end it, or change to another peer")
		}
		c.stage.transcript.append(&c.stage.past, old)
		c.stage.streamed = append(c.stage.streamed, old.lines()...)
	}
	p, err := c.launch(c.args)
	if err == nil {
		c.stage.peers[c.stage.current] = p
	}
	return err
}

// peer NAME changes to another conversation.
func (c call) peer() error {
	if err := c.want(1, "peer NAME"); err != nil {
		return err
	}
	c.stage.current = c.args[0]
	return nil
}

// initialize [PROVIDER] makes the handshake with the scripted model.
func (c call) initialize() error {
	p, err := c.talk()
	if err != nil {
		return err
	}
	provider := "scripted"
	if len(c.args) > 0 {
		provider = c.args[0]
	}
	if err := p.send(initializeFrame(c.ts.MkAbs(c.expand("$WORK/ws")), provider)); err != nil {
		return err
	}
	return wantAnswer(p, "init", map[string]any{"result": map[string]any{}})
}

func initializeFrame(cwd, provider string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"cwd":%s,"provider":%s,"model":"scripted"}}`+"\n",
		show(cwd), show(provider))
}

func promptFrame(id, session, text string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"session/prompt","params":{"sessionId":%s,"contentBlocks":[{"type":"text","text":%s}]}}`+"\n",
		show(id), show(session), show(text))
}

const shutdownFrame = `{"jsonrpc":"2.0","id":"bye","method":"shutdown","params":{}}` + "\n"

func wantAnswer(p *peer, id, pattern any) error {
	got, err := p.answer(id)
	if err != nil {
		return err
	}
	if !matches(pattern, got) {
		return p.failure(fmt.Sprintf("the answer %s is not like %s", show(got), show(pattern)))
	}
	return nil
}

// prompt [-nowait] SESSION TEXT... sends prompts in one write, with the ids p1,
// p2, ..., and waits for their answers; -nowait is for a process that may not
// live to give them.
func (c call) prompt() error {
	wait := len(c.args) == 0 || c.args[0] != "-nowait"
	if !wait {
		c.args = c.args[1:]
	}
	if err := c.want(2, "prompt [-nowait] SESSION TEXT..."); err != nil {
		return err
	}
	p, err := c.talk()
	if err != nil {
		return err
	}
	var raw []byte
	var ids []string
	for _, text := range c.args[1:] {
		c.stage.prompts++
		ids = append(ids, fmt.Sprintf("p%d", c.stage.prompts))
		raw = append(raw, promptFrame(ids[len(ids)-1], c.args[0], text)...)
	}
	if err := p.send(raw); err != nil || !wait {
		return err
	}
	for _, id := range ids {
		if err := wantAnswer(p, id, map[string]any{"result": map[string]any{"messageId": "/^" + uuids.String() + "$/"}}); err != nil {
			return err
		}
	}
	return nil
}

// shutdown asks for the end and waits for the answer.
func (c call) shutdown() error {
	p, err := c.talk()
	if err != nil {
		return err
	}
	if err := p.send([]byte(shutdownFrame)); err != nil {
		return err
	}
	return wantAnswer(p, "bye", map[string]any{"result": map[string]any{}})
}

// send LINE... sends lines in one write.
func (c call) send() error {
	if err := c.want(1, "send LINE..."); err != nil {
		return err
	}
	p, err := c.talk()
	if err != nil {
		return err
	}
	return p.send([]byte(c.expand(strings.Join(c.args, "\n") + "\n")))
}

// send-file [-unended] FILE sends a file as it is, in one write; -unended leaves
// out its last newline.
func (c call) sendFile() error {
	if err := c.want(1, "send-file [-unended] FILE"); err != nil {
		return err
	}
	p, err := c.talk()
	if err != nil {
		return err
	}
	raw := c.expand(c.ts.ReadFile(c.args[len(c.args)-1]))
	if c.args[0] == "-unended" {
		raw = strings.TrimSuffix(raw, "\n")
	}
	return p.send([]byte(raw))
}

// expect PATTERN waits for the next line that has a shape (see matches) and goes
// behind it. ! expect PATTERN fails when there is one among those that came.
func (c call) expect(neg bool) error {
	if err := c.want(1, "expect PATTERN"); err != nil {
		return err
	}
	p, err := c.talk()
	if err != nil {
		return err
	}
	pattern, err := c.pattern(c.args[0])
	if err != nil {
		return err
	}
	if !neg {
		return p.expect(pattern)
	}
	for _, e := range p.lines() {
		if matches(pattern, e.value) {
			return p.failure(fmt.Sprintf("this was not to come: %s", e.line))
		}
	}
	return nil
}

// answer ID [PATTERN] waits for the answer to a request; ID is JSON or a word.
func (c call) answer() error {
	if err := c.want(1, "answer ID [PATTERN]"); err != nil {
		return err
	}
	p, err := c.talk()
	if err != nil {
		return err
	}
	id, err := c.pattern(c.args[0])
	if err != nil {
		id = c.args[0]
	}
	var pattern any = map[string]any{}
	if len(c.args) > 1 {
		if pattern, err = c.pattern(c.args[1]); err != nil {
			return err
		}
	}
	return wantAnswer(p, id, pattern)
}

// event SESSION TYPE [PATTERN] expects an event, with data of a shape.
func (c call) event() error {
	if err := c.want(2, "event SESSION TYPE [DATA-PATTERN]"); err != nil {
		return err
	}
	p, err := c.talk()
	if err != nil {
		return err
	}
	event := map[string]any{"type": c.args[1]}
	if len(c.args) > 2 {
		if event["data"], err = c.pattern(c.args[2]); err != nil {
			return err
		}
	}
	return p.expect(map[string]any{"params": map[string]any{"sessionId": c.args[0], "event": event}})
}

// status SESSION STATUS expects a status change.
func (c call) status() error {
	if err := c.want(2, "status SESSION running|idle"); err != nil {
		return err
	}
	p, err := c.talk()
	if err != nil {
		return err
	}
	return p.expect(map[string]any{"method": sdkproto.NotifySessionStatus, "params": map[string]any{"sessionId": c.args[0], "status": c.args[1]}})
}

// rewind lets expect begin at the start of the conversation again.
func (c call) rewind() error {
	p, err := c.talk()
	if err == nil {
		p.cursor = 0
	}
	return err
}

// count N PATTERN wants exactly N lines of a shape among all that came.
func (c call) count() error {
	if err := c.want(2, "count N PATTERN"); err != nil {
		return err
	}
	p, err := c.talk()
	if err != nil {
		return err
	}
	pattern, err := c.pattern(c.args[1])
	if err != nil {
		return err
	}
	got := 0
	for _, e := range p.lines() {
		if matches(pattern, e.value) {
			got++
		}
	}
	if strconv.Itoa(got) != c.args[0] {
		return p.failure(fmt.Sprintf("%d lines are like %s, want %s", got, c.args[1], c.args[0]))
	}
	return nil
}

// pause DURATION spaces out what the client does. It never waits for the
// program to have done something.
func (c call) pause() error {
	if err := c.want(1, "pause DURATION"); err != nil {
		return err
	}
	d, err := time.ParseDuration(c.args[0])
	time.Sleep(d)
	return err
}

// signal NAME sends a signal: TERM, INT, HUP or KILL. KILL waits for the end.
func (c call) signal() error {
	if err := c.want(1, "signal NAME"); err != nil {
		return err
	}
	p, err := c.talk()
	if err != nil {
		return err
	}
	if c.args[0] == "KILL" {
		return p.kill()
	}
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": os.Interrupt, "HUP": syscall.SIGHUP}
	p.note("signal " + c.args[0])
	return p.cmd.Process.Signal(signals[c.args[0]])
}

// log PATTERN waits until something new on standard error matches a regular
// expression.
func (c call) log() error {
	if err := c.want(1, "log PATTERN"); err != nil {
		return err
	}
	p, err := c.talk()
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile("(?m)" + c.args[0])
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		said, err := os.ReadFile(p.stderr)
		if err != nil {
			return err
		}
		if at := pattern.FindIndex(said[p.logged:]); at != nil {
			p.logged += at[1]
			return nil
		}
		if time.Now().After(deadline) {
			return p.failure("nothing on standard error matches " + c.args[0])
		}
	}
}

// eof ends the input of the process.
func (c call) eof() error {
	p, err := c.talk()
	if err != nil {
		return err
	}
	return p.closeInput()
}

// exit CODE|killed waits for the end of the process; `stdout` and `stderr` then
// look at what it printed.
func (c call) exit() error {
	if err := c.want(1, "exit CODE|killed"); err != nil {
		return err
	}
	p, err := c.talk()
	if err != nil {
		return err
	}
	if c.args[0] == "killed" {
		return c.end(p, killed)
	}
	code, err := strconv.Atoi(c.args[0])
	if err != nil {
		return err
	}
	return c.end(p, code)
}

// await FILE [TEXT] waits until a file exists and, with TEXT, holds it.
func (c call) await() error {
	if err := c.want(1, "await FILE [TEXT]"); err != nil {
		return err
	}
	file := c.ts.MkAbs(c.args[0])
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		data, err := os.ReadFile(file)
		if err == nil && (len(c.args) < 2 || bytes.Contains(data, []byte(c.args[1]))) {
			return nil
		}
	}
	return fmt.Errorf("%s does not come to hold %q", file, c.args[1:])
}

// stored [-all] SESSION checks the log of a session (see checkStored,
// checkStreamed) and prints it for `stdout`, one line an event: type and data,
// plain as in a transcript. -all says that all of it must have been streamed.
func (c call) stored() error {
	if err := c.want(1, "stored [-all] SESSION"); err != nil {
		return err
	}
	id, all := c.args[len(c.args)-1], c.args[0] == "-all"
	root := c.ts.Getenv("DSH_SESSION_ROOT")
	if root == "" {
		root = filepath.Join(c.ts.Getenv("DSH_HOME"), "sessions.d")
	}
	events, err := readStored(filepath.Join(root, id+".jsonl"))
	if err != nil {
		return err
	}
	streamed := c.stage.streamed
	for _, p := range c.stage.peers {
		streamed = append(streamed, p.lines()...)
	}
	for _, e := range events {
		plain := c.stage.transcript.plain(fmt.Appendf(nil, `{"type":%s,"data":%s}`, show(member(e, "type")), show(member(e, "data"))))
		data := strings.TrimSuffix(plain[strings.Index(plain, `,"data":`)+len(`,"data":`):], "}")
		fmt.Fprintf(c.ts.Stdout(), "%s %s\n", text(member(e, "type")), data)
	}
	return errors.Join(checkStored(events), checkStreamed(id, events, streamed, all))
}

// requests prints, for `stdout`, what the model was asked through the provider
// `recorded`, one request a line. Each must go on where the one before it of the
// same session ended: equal header, equal beginning (S137).
func (c call) requests() error {
	requests, err := readRequests(c.ts.Getenv("DSH_HOME"))
	if err != nil {
		return err
	}
	for _, r := range requests {
		fmt.Fprintf(c.ts.Stdout(), "%s\n", c.stage.transcript.plain(r.line))
	}
	return checkGrowing(requests)
}

// transcript prints, for `cmp stdout FILE`, what was said since the last
// transcript.
func (c call) showTranscript() error {
	p, err := c.talk()
	if err != nil {
		return err
	}
	b := &c.stage.past
	c.stage.transcript.append(b, p)
	_, err = c.ts.Stdout().Write([]byte(b.String()))
	b.Reset()
	return err
}
