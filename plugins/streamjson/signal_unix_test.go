//go:build unix

package streamjson_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dsh/kernel"
	"dsh/kernel/profile"
	"dsh/kernel/stdio"
	"dsh/plugins"
	"dsh/profiles"
)

// childVariable makes the test binary serve the profile in its place.
const childVariable = "STREAMJSON_TEST_CHILD"

// serveAsChild is the program that the tests of signals start.
func serveAsChild() int {
	pair, err := stdio.Take()
	if err != nil {
		return 99
	}
	p, err := profile.Load(profile.Options{Name: "stream-json", Embedded: profiles.FS, Home: os.Getenv("DSH_HOME"), Sets: []string{
		"scripted.script=" + os.Getenv(childVariable), "front.legacyLines=false", "permissions.mode=bypassPermissions",
	}})
	if err != nil {
		return 98
	}
	return kernel.Run(context.Background(), "test", os.Stderr, kernel.Options{Plugins: plugins.Builtin(), Profile: p, Stdio: pair})
}

// What signals do to a session that is idle, and to one that works (checklist 14;
// spec stream-json 1.7).
func TestSignals(t *testing.T) {
	for name, tc := range map[string]struct {
		prompt  string
		signals []os.Signal
		code    int
		results int
	}{
		"SIGTERM, idle":        {"", []os.Signal{syscall.SIGTERM}, 143, 0},
		"SIGTERM, a call":      {"sleep", []os.Signal{syscall.SIGTERM}, 143, 0},
		"SIGTERM, an answer":   {"hang", []os.Signal{syscall.SIGTERM}, 143, 0},
		"SIGHUP":               {"hang", []os.Signal{syscall.SIGHUP}, 1, 0},
		"SIGINT, idle":         {"", []os.Signal{syscall.SIGINT}, 130, 0},
		"SIGINT, an answer":    {"hang", []os.Signal{syscall.SIGINT}, 1, 1},
		"SIGINT, then SIGTERM": {"hang", []os.Signal{syscall.SIGINT, syscall.SIGTERM}, 143, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "model.yaml")
			must(t, os.WriteFile(file, []byte(script), 0o600))
			cmd := exec.Command(os.Args[0])
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), childVariable+"="+file, "DSH_HOME="+filepath.Join(dir, "home"), "HOME="+dir)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			in, err := cmd.StdinPipe()
			must(t, err)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			defer func() { _ = cmd.Process.Kill() }()
			lines := bufio.NewScanner(out)
			lines.Buffer(nil, 1<<20)
			until := func(what string) {
				for lines.Scan() {
					if strings.Contains(lines.Text(), what) {
						return
					}
				}
				t.Fatalf("no %s: %s", what, stderr.String())
			}
			_, err = in.Write([]byte(`{"type":"control_request","request_id":"i","request":{"subtype":"initialize"}}` + "\n"))
			must(t, err)
			until(`"subtype":"init"`)
			if tc.prompt != "" {
				_, err = in.Write([]byte(`{"type":"user","message":{"role":"user","content":"` + tc.prompt + `"}}` + "\n" +
					`{"type":"control_request","request_id":"s","request":{"subtype":"mcp_status"}}` + "\n"))
				must(t, err)
				if tc.prompt == "sleep" {
					until(`"tool_use"`)
				} else {
					until(`"request_id":"s"`)
				}
				time.Sleep(200 * time.Millisecond) // well into the turn
			}
			results := 0
			for i, s := range tc.signals {
				must(t, cmd.Process.Signal(s))
				if i < len(tc.signals)-1 || tc.code == 1 && s == syscall.SIGINT {
					until(`"error_during_execution"`)
					results++
				}
			}
			if tc.code == 1 && tc.results == 1 {
				must(t, in.Close())
			}
			for lines.Scan() {
				if strings.Contains(lines.Text(), `"type":"result"`) {
					results++
				}
			}
			err = cmd.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tc.code || results != tc.results {
				t.Errorf("%v, %d results: %s", err, results, stderr.String())
			}
			if tc.prompt == "sleep" {
				if left, err := exec.Command("pgrep", "-P", "1", "-f", "sleep 600").Output(); err == nil && len(left) > 0 {
					t.Errorf("left behind: %s", left)
				}
			}
		})
	}
}
