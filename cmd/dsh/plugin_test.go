//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dsh/kernel/external"
	"dsh/sdkproto/wirejson"
)

// goTool runs go as it is for developers: with their caches, and no network.
func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s in %s: %v\n%s", strings.Join(args, " "), dir, err, out)
	}
}

// TestPluginInGo takes the Go example through what a stranger does with it.
func TestPluginInGo(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "echo")
	goTool(t, "../../testdata/plugins/echo", "build", "-o", program, ".")
	useAsStranger(t, program, "echo", "echo")
}

// runDsh runs dsh to its end with a data folder.
func runDsh(t *testing.T, home string, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "dsh", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/no-home", "DSH_HOME=" + home}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("dsh %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

// useAsStranger checks a plugin with the config and the tool of the examples,
// adds it, calls its tool from a turn, kills it in the middle of a call, and
// gives it configs that are wrong.
func useAsStranger(t *testing.T, program, name, tool string) {
	at := newPlace(t, doModel)

	out, _ := runDsh(t, at.home, 0, "plugin", "check", program, "--call", tool+`={"text":"hello","wait_ms":5}`)
	if strings.Contains(out, "FAIL") || !strings.Contains(out, "\nok    tools: good calls\n") || !strings.Contains(out, "\nok    end of the harness\n") {
		t.Fatalf("dsh plugin check:\n%s", out)
	}
	runDsh(t, at.home, 0, "plugin", "add", program, "--enable")
	installed := filepath.Join(at.home, "plugins", name)
	out, _ = runDsh(t, at.home, 0, "plugin", "list", "--json")
	var list []map[string]any
	if err := wirejson.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	sum, err := external.Checksum(program)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || !matches(map[string]any{"name": name, "version": "1.0.0", "checksum": sum, "rows": []any{name}}, list[0]) {
		t.Errorf("dsh plugin list: %s", out)
	}
	// What a name means already it cannot mean, too.
	for taken, why := range map[string]string{"tool-bash": "built in", "shell": `have a row "shell"`} {
		if _, said := runDsh(t, at.home, 1, "plugin", "add", program, "--name", taken); !strings.Contains(said, why) {
			t.Errorf("dsh plugin add --name %s: %s", taken, said)
		}
	}
	// The same program again is no change.
	if out, _ := runDsh(t, at.home, 0, "plugin", "add", program, "--enable"); !strings.HasPrefix(out, "replaced "+name+" ") {
		t.Errorf("dsh plugin add, again: %s", out)
	}

	d := startStranger(t, at)
	if got := d.do("s", tool, map[string]any{"text": "hello 世界"}); got.failed || got.text != "You said: hello 世界" {
		t.Errorf("a call: %+v", got)
	}

	// Case B70: it is killed in the middle of a call.
	d.ask("s", tool, map[string]any{"text": "never", "wait_ms": 60000})
	d.awaitLog("a call waits")
	pids := running(t, installed)
	if len(pids) != 1 {
		t.Fatalf("processes of %s: %v", installed, pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	got := d.result("s")
	if !got.failed || got.code != "PLUGIN_UNAVAILABLE" || !strings.Contains(got.text, name) {
		t.Errorf("a call whose plugin was killed: %+v", got)
	}
	if got := d.do("s", tool, map[string]any{"text": "again"}); got.failed || got.text != "You said: again" {
		t.Errorf("a call after a restart: %+v", got)
	}
	d.end()
	if left := running(t, installed); len(left) > 0 {
		t.Errorf("processes that outlive dsh: %v", left)
	}

	for _, c := range []struct{ name, row, line, want string }{
		{"of a wrong type", "config:\n      prefix: 1", "5", "config.prefix"},
		{"that only the plugin can judge", "config:\n      refuse: [\" \"]", "5", "' ' is no word"},
		{"of a wrong program", "checksum: sha256:" + strings.Repeat("0", 64), "", "is not the pinned file"},
	} {
		t.Run("a row "+c.name, func(t *testing.T) {
			patch := filepath.Join(at.root, "patch.yaml")
			content := fmt.Sprintf("plugins:\n  %s:\n    required: true\n    %s\n", name, c.row)
			if err := os.WriteFile(patch, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			p := launchStranger(t, at, "--patch", patch)
			frame, err := p.answer("init")
			if err != nil {
				t.Fatal(err)
			}
			message := strings.ReplaceAll(text(member(frame, "error", "message")), `"`, "'")
			if !strings.Contains(message, c.want) || c.line != "" && !strings.Contains(message, "patch.yaml:"+c.line+":") {
				t.Errorf("initialize: %s; want %q, at line %q", message, c.want, c.line)
			}
		})
	}

	if _, said := runDsh(t, at.home, 0, "plugin", "remove", name); !strings.Contains(said, "the row "+name+" of profile sdk still names it") {
		t.Errorf("dsh plugin remove: %s", said)
	}
	if _, err := os.Stat(installed); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the program is still there: %v", err)
	}
}

// launchStranger starts dsh with the profile sdk, and asks it to initialize.
func launchStranger(t *testing.T, at *place, args ...string) *peer {
	t.Helper()
	at.started++
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=/no-home", "DSH_HOME=" + at.home, "DSH_SCRIPT=" + at.model}
	p, err := startPeer("dsh", append([]string{"--profile", "sdk"}, args...), env, at.ws, filepath.Join(at.root, fmt.Sprintf("stderr.%d", at.started)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.abandon)
	if err := p.send(initializeFrame(at.ws, "scripted")); err != nil {
		t.Fatal(err)
	}
	return p
}

func startStranger(t *testing.T, at *place) *doing {
	t.Helper()
	p := launchStranger(t, at)
	if err := wantAnswer(p, "init", map[string]any{"result": map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	return &doing{place: at, peer: p, t: t, mark: "DSH_TEST_MARK=none", turns: map[string]int{}}
}

// awaitLog waits for a line on standard error.
func (d *doing) awaitLog(line string) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if said, err := os.ReadFile(d.stderr); err == nil && bytes.Contains(said, []byte(line)) {
			return
		}
	}
	d.t.Fatal(d.failure("standard error does not say " + line))
}

// running lists the processes that were started from a file, by itself or by the
// interpreter that it names.
func running(t *testing.T, file string) []int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-axwwo", "pid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && slices.Contains(fields[1:min(len(fields), 4)], file) {
			pid, err := strconv.Atoi(fields[0])
			if err != nil {
				t.Fatalf("ps: %q", line)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}
