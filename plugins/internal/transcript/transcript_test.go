package transcript_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dsh/plugins/internal/transcript"
)

// TestKey: the key of a folder (spec stream-json 10.1). The hashes were worked out
// by another program from h = h*31 + code in signed 32 bits.
func TestKey(t *testing.T) {
	long := "/" + strings.Repeat("a", 200)
	for cwd, want := range map[string]string{
		"/home/me/app":                   "-home-me-app",
		"/home/me/my_app.v2":             "-home-me-my-app-v2",
		`C:\work`:                        "C--work",
		"/e\u0301":                       "--", // composed before it is replaced
		"/" + strings.Repeat("a", 199):   "-" + strings.Repeat("a", 199),
		long:                             "-" + strings.Repeat("a", 199) + "-" + "b6ymvl",
		"/" + strings.Repeat("zz/", 100): "-" + strings.Repeat("zz-", 66) + "z-" + "ywpte9",
	} {
		if got := transcript.Key(cwd); got != want {
			t.Errorf("%s: got %s, want %s", cwd, got, want)
		}
	}
}

func TestPath(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real, link := filepath.Join(base, "real"), filepath.Join(base, "link")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	project := filepath.Join("/cfg", "projects", transcript.Key(real))
	if got, want := transcript.Path("/cfg", link, "S"), filepath.Join(project, "S.jsonl"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := transcript.AgentPath("/cfg", link, "S", "A"), filepath.Join(project, "S", "subagents", "agent-A.jsonl"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	t.Setenv("CLAUDE_CONFIG_DIR", "/elsewhere")
	if got := transcript.Dir(); got != "/elsewhere" {
		t.Errorf("got %s", got)
	}
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	if got := transcript.Dir(); got != filepath.Join(home, ".claude") {
		t.Errorf("got %s", got)
	}
}

// Spec stream-json 10.1, 10.3: a session is looked for in its own project first, in
// one of the same long path with another hash next, and in all others last; what is
// empty or no file is none, and no id leads out of the folder.
func TestFind(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(base, strings.Repeat("x", 150), strings.Repeat("y", 100))
	own, other := transcript.Key(long), "-some-where-else"
	for name, text := range map[string]string{
		own + "/A.jsonl": "a\n", other + "/A.jsonl": "a\n", own[:201] + "zzzz/B.jsonl": "b\n", other + "/B.jsonl": "b\n",
		other + "/C.jsonl": "c\n", own + "/D.jsonl": "", other + "/E.jsonl/x": "e\n", "F.jsonl": "f\n",
	} {
		path := filepath.Join(base, "projects", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{
		"A": own + "/A.jsonl", "B": own[:201] + "zzzz/B.jsonl", "C": other + "/C.jsonl", "D": "", "E": "", "": "", "../F": "", "nobody": "",
	} {
		got := transcript.Find(base, long, id)
		if want != "" {
			want = filepath.Join(base, "projects", filepath.FromSlash(want))
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
	if got := transcript.Find("", long, "A"); got != "" {
		t.Errorf("without a folder: %s", got)
	}
	var ids []string
	for _, f := range transcript.List(base, long) {
		ids = append(ids, f.SessionID)
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"A", "B"}) {
		t.Errorf("listed %q", ids)
	}
}
