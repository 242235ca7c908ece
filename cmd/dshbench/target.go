package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// modelScript is what the scripted model does.
const modelScript = `rules:
  - when: {text: 'bench stream'}
    reply:
      - {text: 'word ', repeat: 20000}
  - when: {text: 'bench read', step: 1}
    reply:
      - call: {tool: read, args: {file_path: hello.txt}}
  - when: {text: 'bench shell', step: 1}
    reply:
      - call: {tool: bash, args: {command: 'true'}}
  - when: {text: 'bench wait'}
    reply:
      - delay: 500ms
      - text: done
  - when: {text: 'bench hold'}
    reply:
      - delay: 1h
  - reply: done
`

// target is one program to measure.
type target struct {
	name            string
	command         []string
	env             []string
	provider, model string
	work, workspace string
	// nothing marks the program that does nothing: it takes part only where the
	// figure says what that means. own marks dsh.
	nothing, own bool
	// stream says that it speaks stream-json, else JSON-RPC.
	stream bool
}

// limit bounds every wait of a measurement.
const limit = 3 * time.Minute

// process is one started target.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	home  string
	timer *time.Timer
	id    int
	// stream is the target's.
	stream bool
}

// start spawns the target with a fresh data folder.
func (t *target) start() (*process, error) {
	home, err := os.MkdirTemp(t.work, "home-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(t.command[0], t.command[1:]...)
	cmd.Dir = t.workspace
	cmd.Env = append(t.env[:len(t.env):len(t.env)], "DSH_HOME="+home, "DSH_LOG_LEVEL=error")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 256<<10), home: home, stream: t.stream}
	p.timer = time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	return p, nil
}

// initialized starts the target and does the handshake.
func (t *target) initialized() (*process, error) {
	p, err := t.start()
	if err != nil {
		return nil, err
	}
	if err := p.initialize(t); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

func (p *process) request(method, params string) error {
	p.id++
	_, err := fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", p.id, method, params)
	return err
}

func (p *process) initialize(t *target) error {
	if p.stream {
		return p.initializeStream()
	}
	if err := p.request("initialize", fmt.Sprintf(`{"cwd":%q,"provider":%q,"model":%q}`, t.workspace, t.provider, t.model)); err != nil {
		return err
	}
	line, err := p.out.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("no answer to initialize: %w", err)
	}
	if bytes.Contains(line, []byte(`"error"`)) {
		return fmt.Errorf("initialize failed: %s", line)
	}
	return nil
}

func (p *process) prompt(session, text string) error {
	if p.stream {
		_, err := fmt.Fprintf(p.in, `{"type":"user","message":{"role":"user","content":%q},"parent_tool_use_id":null,"session_id":"default"}`+"\n", text)
		return err
	}
	return p.request("session/prompt", fmt.Sprintf(`{"sessionId":%q,"contentBlocks":[{"type":"text","text":%q}]}`, session, text))
}

var idleStatus = []byte(`"status":"idle"`)

// untilIdle reads until n sessions have said that they are idle.
func (p *process) untilIdle(n int) error { return p.until(n, idleStatus) }

// until reads until n lines have held text.
func (p *process) until(n int, text []byte) error {
	for n > 0 {
		line, err := p.out.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("the wire ended: %w", err)
		}
		if bytes.Contains(line, text) {
			n--
		}
	}
	return nil
}

// turn sends a prompt and reads to the end of its turn.
func (p *process) turn(session, text string) error {
	if err := p.prompt(session, text); err != nil {
		return err
	}
	if p.stream {
		return p.untilResult()
	}
	return p.untilIdle(1)
}

// shutdown asks for the end. With stream-json the end of input is that.
func (p *process) shutdown() error {
	if p.stream {
		return nil
	}
	return p.request("shutdown", "{}")
}

// end closes the wire and waits for the process.
func (p *process) end() error {
	if err := p.in.Close(); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, p.out)
	err := p.cmd.Wait()
	p.timer.Stop()
	return errors.Join(err, os.RemoveAll(p.home))
}

func (p *process) kill() error {
	p.timer.Stop()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	return os.RemoveAll(p.home)
}

// used gives the processor time of an ended process.
func (p *process) used() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

func sessionID(i int) string { return "s" + strconv.Itoa(i) }
