package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// completed is a run of dcl from its start to its end.
type completed struct {
	code           int
	stdout, stderr string
}

// complete runs dcl with a whole standard input and gives what came of it.
func (r *room) complete(stdin string, args ...string) completed {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), binary(r.t), args...)
	cmd.Dir, cmd.Env = r.work, r.env
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = patience
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	hung := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) && !errors.Is(err, io.ErrClosedPipe) {
		r.t.Fatalf("dcl %q: %v", args, err)
	}
	return completed{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// speak runs dcl as a client's back end, with a whole standard input; every line
// of its output is checked.
func (r *room) speak(stdin string, flags ...string) (completed, []object) {
	r.t.Helper()
	c := r.complete(stdin, append(append([]string{}, streamFlags...), flags...)...)
	return c, r.judged(c.stdout)
}

// judged checks lines of output.
func (r *room) judged(stdout string) (lines []object) {
	r.t.Helper()
	for raw := range strings.SplitSeq(strings.TrimSuffix(stdout, "\n"), "\n") {
		if stdout == "" {
			break
		}
		line, faults := judge([]byte(raw))
		for _, fault := range faults {
			r.t.Errorf("output: %s: %.300s", fault, raw)
		}
		lines = append(lines, line)
	}
	if stdout != "" && !strings.HasSuffix(stdout, "\n") {
		r.t.Errorf("the last line has no end: %.300s", stdout)
	}
	return lines
}

// asks is a user line.
func asks(text string) string { return asksAs("", text) }

// asksAs is a user line with an id.
func asksAs(uuid, text string) string {
	line := object{"type": "user", "session_id": "", "parent_tool_use_id": nil, "message": object{"role": "user", "content": text}}
	if uuid != "" {
		line["uuid"] = uuid
	}
	return wire(line)
}

// wire is a line as it is written.
func wire(line any) string {
	encoded, err := wirejson.Marshal(line)
	if err != nil {
		panic(err)
	}
	return string(encoded) + "\n"
}

// requests is a control request's line.
func requests(id, subtype string, more object) string {
	request := object{"subtype": subtype}
	for k, v := range more {
		request[k] = v
	}
	return wire(object{"type": "control_request", "request_id": id, "request": request})
}

// kinds are the types of lines, with / and the subtype of those that have one.
func kinds(lines []object) (list []string) {
	for _, l := range lines {
		kind, _ := l["type"].(string)
		if s, ok := l["subtype"].(string); ok {
			kind += "/" + s
		}
		list = append(list, kind)
	}
	return list
}

// only keeps the lines of a kind that kinds gives.
func only(lines []object, kind string) (list []object) {
	for _, l := range lines {
		if kinds([]object{l})[0] == kind || l["type"] == kind {
			list = append(list, l)
		}
	}
	return list
}

// files lists what is below the data folder.
func (r *room) files() (list []string) {
	r.t.Helper()
	err := filepath.WalkDir(r.home, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(r.home, path)
			list = append(list, rel)
		}
		if os.IsNotExist(err) {
			return nil
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// The checks of this file can fail.
func TestJudged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		line string
		good bool
	}{
		"a message":        {`{"type":"keep_alive"}`, true},
		"no object":        {`[]`, false},
		"an unknown type":  {`{"type":"end"}`, false},
		"an answer":        {`{"type":"control_response","response":{"subtype":"success","request_id":"a","response":{}}}`, true},
		"an id outside":    {`{"type":"control_response","request_id":"a","response":{"subtype":"success","response":{}}}`, false},
		"nothing inside":   {`{"type":"control_response","response":{"subtype":"success","request_id":"a"}}`, false},
		"a line separator": {"{\"type\":\"keep_alive\",\"x\":\"\u2028\"}", false},
	} {
		if _, faults := judge([]byte(tc.line)); (len(faults) == 0) != tc.good {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// called is a call of a tool in a model's answer.
func called(id, name string, arguments any) sdkproto.Block {
	return sdkproto.Block{Type: sdkproto.BlockToolCall, ID: id, Name: name, Arguments: wireText(arguments)}
}
