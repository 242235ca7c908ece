package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAddDir: the folders of --add-dir are those besides what the profile names
// (spec stream-json 1.2): a file in either is read without a question, one
// elsewhere is not.
func TestAddDir(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := newRoom(t)
	var calls []object
	for _, name := range []string{"profile", "flag", "neither"} {
		r.write(filepath.Join(base, name, "x"), name+"\n")
		calls = append(calls, call("Read", object{"file_path": filepath.Join(base, name, "x")}))
	}
	r.script(calling(calls...))
	patch := filepath.Join(r.root, "patch.yaml")
	r.write(patch, "plugins: {permissions: {config: {additionalDirectories: ["+filepath.Join(base, "profile")+"]}}}\n")
	h := r.start("--patch", patch, "--add-dir", filepath.Join(base, "flag")).with(&answers{permission: func(object) any { return deny("no") }})
	h.initialize(object{})
	h.prompt(1)
	asked := h.asks("can_use_tool")
	if len(asked) != 1 || dig(asked[0], "request", "input", "file_path") != filepath.Join(base, "neither", "x") {
		t.Errorf("asked %v", asked)
	}
	h.end()
}

// TestNullInASchema: null in --json-schema is a value, and no deleted key
// (S037).
func TestNullInASchema(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","properties":{"a":{"const":null}},"required":["a"]}`
	for name, how := range requiring(schema) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRoom(t).script(outputs(`{"a": 1}`, `{"a": null}`)).start(how.flags...)
			h.control("i", "initialize", how.init)
			h.user("go")
			result := h.result(1)
			if diff := cmp.Diff(object{"a": nil}, result["structured_output"]); diff != "" || result["num_turns"] != 2.0 {
				t.Errorf("after %v turns (-want +got):\n%s", result["num_turns"], diff)
			}
			h.end()
		})
	}
}

// TestDataFolder: the data folder is that of --data-dir, else of DSH_HOME, else of
// the profile's settings.home, from the folder of its file (S081). The command for
// sessions looks there as well.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flags []string
		env   bool
		want  string
	}{
		"profile":  {nil, false, "data"},
		"variable": {nil, true, "home"},
		"flag":     {[]string{"--data-dir", "flag"}, true, "work/flag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoom(t).script(echoes())
			if !tc.env {
				r.env = without(r.env, "DSH_HOME=")
			}
			file := filepath.Join(r.root, "kept.yaml")
			r.write(file, "extends: stream-json\nsettings: {home: data}\n")
			flags := append([]string{"--profile", file, "--session-id", someID}, tc.flags...)
			r.say(flags, [2]string{promptA, "hello"})
			for _, folder := range []string{"data", "home", "work/flag", ".dsh"} {
				_, err := os.Stat(filepath.Join(r.root, folder, "sessions.d", someID+".jsonl"))
				if is := err == nil; is != (folder == tc.want) {
					t.Errorf("a session in %s: %v, want it in %s", folder, is, tc.want)
				}
				if _, err := os.Stat(filepath.Join(r.root, folder)); err == nil && folder != tc.want {
					t.Errorf("there is a folder %s", folder)
				}
			}
			c := r.command(append([]string{"sessions", "list", "--profile", file}, tc.flags...)...)
			if !strings.Contains(c, someID) {
				t.Errorf("the list:\n%s", c)
			}
		})
	}
}

// without drops the entries that begin like this.
func without(list []string, begin string) (left []string) {
	for _, s := range list {
		if !strings.HasPrefix(s, begin) {
			left = append(left, s)
		}
	}
	return left
}

// command runs a command of dcl that must succeed, and gives what it prints.
func (r *room) command(args ...string) string {
	r.t.Helper()
	c := r.complete("", args...)
	if c.code != 0 {
		r.t.Fatalf("%q: exit code %d: %s", args, c.code, c.stderr)
	}
	return c.stdout
}

// TestLongResult: a result of any tool that is over the limit of row spill is cut
// for the model and on the wire, and all of it is in a file of the session that Read
// may read (decision D19).
func TestLongResult(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	long := strings.Repeat("é", 5000) + "end"
	r.write("long.txt", long)
	r.script(calling(call("Read", object{"file_path": filepath.Join(r.work, "long.txt")}), call("Read", object{"file_path": filepath.Join(r.work, "short.txt")})))
	r.write("short.txt", "short")
	h := r.start("--set", "spill.maxText=1000", "--set", "fs.lineRunes=100000")
	h.initialize(object{})
	h.prompt(1)
	results := h.toolResults()
	text := contentText(results[0])
	if n := strings.Count(text, "é"); n < 900 || n > 1000 || results[0]["is_error"] == true || !strings.Contains(text, "characters of text, more than the 1000 that fit. The whole is in "+r.home) {
		t.Errorf("%d characters: …%s", n, text[max(0, len(text)-300):])
	}
	files, _ := filepath.Glob(filepath.Join(r.home, "spill", "*", "*"))
	if len(files) != 1 || !strings.Contains(r.read(files[0]), long) {
		t.Errorf("kept in %q", files)
	}
	if got := contentText(results[1]); !strings.Contains(got, "short") || strings.Contains(got, "fit") {
		t.Errorf("the short one: %q", got)
	}
	h.end()
}
