package transcript_test

import (
	"os"
	"path/filepath"
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
