package hooks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"dsh/kernel/content"
	"dsh/kernel/hook"
	"dsh/kernel/process"
	"dsh/sdkproto/wirejson"
)

const (
	// blocking is the exit code of a command that refuses (spec stream-json 6.4).
	blocking = 2
	// mostOutput and mostErrors bound what is kept of a command's streams, in bytes.
	mostOutput, mostErrors = 1 << 20, 64 << 10
)

// lookShell finds the configured shell, or bash, or sh.
func lookShell(configured string) (string, error) {
	for _, name := range []string{cmp.Or(configured, "bash"), cmp.Or(configured, "sh")} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("look up the shell of hooks: there is no %s in PATH; install it or set `shell` of the row", cmp.Or(configured, "bash or sh"))
}

// command runs a command hook (spec stream-json 6.4). It has the rights of the
// harness, for it is the user's own program; whatever it leaves running ends with
// the session at the root.
func (e *Engine) command(ctx context.Context, x *entry, in *hook.Input, root string, input json.RawMessage, goAway func(time.Duration) bool) report {
	if e.with.Runner == nil {
		return report{err: errors.New("the profile has no row that runs programs")}
	}
	shell, err := e.shell()
	if err != nil {
		return report{err: err}
	}
	if x.away {
		goAway(0)
	}
	out, errs := &capture{most: mostOutput}, &capture{most: mostErrors}
	out.line = func(line []byte) {
		if s, err := parseOutput(in, line); err == nil && s.away {
			goAway(s.awayLimit)
		}
	}
	env := []string{"CLAUDE_PROJECT_DIR=" + in.CWD}
	if x.root != "" {
		env = append(env, content.RootVariable+"="+x.root)
	}
	exit, err := e.with.Runner.Run(ctx, process.Command{
		Path: shell, Args: []string{"-c", x.command}, Dir: in.CWD, Env: env,
		Input: slices.Concat(input, []byte("\n")), Output: out, Errors: errs, SessionID: root,
	})
	if err != nil {
		return report{err: err}
	}
	r := report{stdout: out.text(), stderr: errs.text(), code: &exit.Code}
	written := strings.TrimSpace(r.stdout)
	switch {
	case exit.Cancelled:
		r.err = cmp.Or(context.Cause(ctx), errors.New("it was ended"))
	case exit.Signal != "":
		r.err = fmt.Errorf("it was ended by %s: %s", exit.Signal, clip(strings.TrimSpace(r.stderr), mostName))
	case exit.Code == blocking:
		r.blocks, r.reason = true, reasonOf(in, r.stderr, written)
	case exit.Code != 0:
		r.err = fmt.Errorf("it ended with code %d: %s", exit.Code, clip(strings.TrimSpace(r.stderr), mostText))
	case strings.HasPrefix(written, "{") && out.more:
		r.err = fmt.Errorf("its output is longer than %d bytes", mostOutput)
	case strings.HasPrefix(written, "{"):
		r.output = []byte(written)
	default:
		r.text = written
	}
	return r
}

// reasonOf is why a command blocks: what it wrote to standard error, else the
// reason of an output object, else that it did.
func reasonOf(in *hook.Input, stderr, stdout string) string {
	if text := strings.TrimSpace(stderr); text != "" {
		return text
	}
	if s, err := parseOutput(in, []byte(stdout)); err == nil && cmp.Or(s.Reason, s.StopReason) != "" {
		return cmp.Or(s.Reason, s.StopReason)
	}
	return fmt.Sprintf("a %s hook blocks without giving a reason", in.Event)
}

// capture keeps the beginning of a stream.
type capture struct {
	most int
	// line is told the first line, when it is a JSON object, as soon as it is
	// there; it may be nil.
	line func([]byte)

	mu   sync.Mutex
	kept []byte
	// more says that there was more.
	more, told bool
}

// Write implements io.Writer.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	room := min(len(p), c.most-len(c.kept))
	c.kept = append(c.kept, p[:room]...)
	c.more = c.more || room < len(p)
	line, _, whole := bytes.Cut(c.kept, []byte("\n"))
	tell := whole && !c.told && c.line != nil
	c.told = c.told || whole
	line = bytes.Clone(bytes.TrimSpace(line))
	c.mu.Unlock()
	if tell && wirejson.Valid(line) && line[0] == '{' {
		c.line(line)
	}
	return len(p), nil
}

func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.ToValidUTF8(string(c.kept), "\uFFFD")
}
