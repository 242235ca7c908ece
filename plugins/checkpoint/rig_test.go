package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/checkpoint"
	"dsh/kernel/kerneltest"
	"dsh/plugins/agentloop"
	"dsh/plugins/core"
	"dsh/plugins/llmscripted"
	"dsh/plugins/processlocal"
	"dsh/plugins/sessionjsonl"
)

const rows = `
plugins:
  core: {use: core}
  exec: {use: process-local}
  store: {use: session-jsonl}
  model: {use: llm-scripted}
  loop: {use: agentloop}
  checkpoint: {use: checkpoint}
`

// rig is a keeper in a running kernel, and a work tree.
type rig struct {
	t    testing.TB
	keep *Keeper
	// home is $DSH_HOME, top the work tree.
	home, top string
	turns     int
}

// boot starts a kernel with a keeper; sets are as of the command line.
func boot(t *testing.T, home string, sets ...string) *Keeper {
	t.Helper()
	b := kerneltest.Boot(t, kerneltest.Options{
		Text: rows, Sets: sets, Home: home,
		Plugins: []kernel.Plugin{core.Plugin, processlocal.Plugin, sessionjsonl.Plugin, llmscripted.Plugin, agentloop.Plugin, Plugin},
	})
	k, ok := kernel.Seam[checkpoint.Keeper](b.Kernel)
	if !ok {
		t.Fatal("no keeper")
	}
	return k.(*Keeper)
}

// folderOf makes an empty folder without links in its path.
func folderOf(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func newRig(t *testing.T, sets ...string) *rig {
	t.Helper()
	r := &rig{t: t, home: folderOf(t), top: folderOf(t)}
	r.git("init", "-q")
	r.keep = boot(t, r.home, sets...)
	return r
}

// gitIn runs git as a user would, without the settings of whoever runs the test.
func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || errs.Len() > 0 {
			t.Fatalf("git %v: %v %s", args, err, errs.String())
		}
	}
	return out.String()
}

func (r *rig) git(args ...string) string { r.t.Helper(); return gitIn(r.t, r.top, args...) }

func (r *rig) abs(path string) string { return filepath.Join(r.top, path) }

// write makes a file with the folders that it needs.
func (r *rig) write(path, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.abs(path)), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.abs(path), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) remove(path string) {
	r.t.Helper()
	if _, err := os.Lstat(r.abs(path)); err != nil {
		return
	}
	if err := os.RemoveAll(r.abs(path)); err != nil {
		r.t.Fatal(err)
	}
}

// read gives a file's content, and what stands for one that is not there.
func (r *rig) read(path string) string {
	data, err := os.ReadFile(r.abs(path))
	if err != nil {
		return "(none)"
	}
	return string(data)
}

// begin begins a turn and gives its message's id.
func (r *rig) begin() string {
	r.turns++
	id := fmt.Sprint("m", r.turns)
	r.session().turn(id)
	return id
}

func (r *rig) session() *session { return r.keep.session("s") }

func (r *rig) tree() *tree {
	r.t.Helper()
	t, err := findTree(r.top)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// call is a call of the session that changes files.
func (r *rig) call(change func()) {
	r.t.Helper()
	s := r.session()
	if err := s.enter(context.Background(), r.tree(), false); err != nil {
		r.t.Fatal(err)
	}
	change()
	s.leave()
	r.rest()
}

// rest waits for the snapshot behind the calls.
func (r *rig) rest() {
	r.t.Helper()
	if err := r.session().catchUp(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// turn is a turn with one call.
func (r *rig) turn(change func()) string {
	r.t.Helper()
	id := r.begin()
	r.call(change)
	return id
}

func (r *rig) rewind(id string, dry bool) checkpoint.Outcome {
	r.t.Helper()
	out, err := r.keep.Rewind(context.Background(), "s", r.top, id, dry)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// must rewinds and fails the test when that is refused.
func (r *rig) must(id string) checkpoint.Outcome {
	r.t.Helper()
	out := r.rewind(id, false)
	if !out.CanRewind {
		r.t.Fatalf("refused: %s", out.Reason)
	}
	return out
}

// world is all that is below a folder but what is called .git at its top: for each
// path its mode and content.
func world(t testing.TB, top string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == top {
			return err
		}
		rel, _ := filepath.Rel(top, path)
		if rel == gitName {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		content := ""
		switch {
		case info.Mode().IsRegular():
			var data []byte
			data, err = os.ReadFile(path)
			content = string(data)
		case info.Mode().Type() == fs.ModeSymlink:
			content, err = os.Readlink(path)
		}
		all[filepath.ToSlash(rel)] = fmt.Sprintf("%v %q", info.Mode(), content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// deepWorld is everything below a folder with times, too.
func deepWorld(t testing.TB, top string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := []byte{}
		if info.Mode().IsRegular() {
			content, err = os.ReadFile(path)
		}
		all[strings.TrimPrefix(path, top)] = fmt.Sprintf("%v %v %q", info.Mode(), info.ModTime(), content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// noAgents is a registry without a live agent.
type noAgents struct{ agent.Registry }

func (noAgents) Get(string) (agent.Agent, bool) { return nil, false }

func timeOf(seconds int64) time.Time { return time.Unix(seconds, 0) }
