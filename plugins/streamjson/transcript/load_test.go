package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Spec stream-json 10.2: the branch comes from the files of Git, also in a linked
// work tree and below the top; there is none without a branch or a work tree.
func TestBranch(t *testing.T) {
	base := t.TempDir()
	for name, text := range map[string]string{
		"main/.git/HEAD": "ref: refs/heads/feature/x\n", "main/sub/file": "", "detached/.git/HEAD": "0123456789abcdef0123456789abcdef01234567\n",
		"linked/.git": "gitdir: ../main/.git/worktrees/linked\n", "main/.git/worktrees/linked/HEAD": "ref: refs/heads/other\n",
		"broken/.git": "nonsense", "empty/.git/config": "",
	} {
		path := filepath.Join(base, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{
		"main": "feature/x", "main/sub": "feature/x", "detached": "HEAD", "linked": "other", "broken": "", "empty": "",
	} {
		if got := Branch(filepath.Join(base, filepath.FromSlash(dir))); got != want {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
}

// Spec stream-json 10.2, 10.5: the chain is that of what was said last; a boundary
// ends it; loops, broken lines and entries of no known kind do no harm.
func TestLoad(t *testing.T) {
	said := func(kind, uuid, parent, text, more string) string {
		p := "null"
		if parent != "" {
			p = `"` + parent + `"`
		}
		return fmt.Sprintf(`{"type":%q,"uuid":%q,"parentUuid":%s%s,"message":{"role":%q,"id":"msg_%s","model":"m","content":%s}}`, kind, uuid, p, more, kind, uuid, text) + "\n"
	}
	user := func(uuid, parent, text, more string) string { return said("user", uuid, parent, `"`+text+`"`, more) }
	answer := func(uuid, parent, text string) string {
		return said("assistant", uuid, parent, `[{"type":"text","text":"`+text+`"}]`, "")
	}
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"a conversation":                   {user("1", "", "a", "") + answer("2", "1", "b"), []string{"user a", "assistant b"}},
		"a later branch":                   {user("1", "", "a", "") + answer("2", "1", "b") + user("3", "1", "c", ""), []string{"user a", "user c"}},
		"a boundary":                       {user("1", "", "a", "") + `{"type":"system","uuid":"2","parentUuid":null,"logicalParentUuid":"1"}` + "\n" + user("3", "2", "sum", `,"isCompactSummary":true`), []string{"user sum"}},
		"a message restated":               {user("1", "", "a", "") + answer("2", "1", "b") + user("8", "", "sum", `,"isCompactSummary":true`) + answer("2", "8", "b") + user("4", "2", "c", ""), []string{"user sum", "assistant b", "user c"}},
		"a note at the end":                {user("1", "", "a", "") + answer("2", "1", "b") + user("3", "2", "note", `,"isMeta":true`), []string{"user a", "assistant b", "user note"}},
		"a note of the program at the end": {user("1", "", "a", "") + `{"type":"attachment","uuid":"2","parentUuid":"1"}` + "\n", []string{"user a"}},
		"a sidechain":                      {user("1", "", "a", "") + user("2", "", "side", `,"isSidechain":true`), []string{"user a"}},
		"a failure":                        {user("1", "", "a", "") + said("assistant", "2", "1", `[{"type":"text","text":"API Error"}]`, `,"isApiErrorMessage":true`), []string{"user a"}},
		"a loop":                           {user("1", "2", "a", "") + user("2", "1", "b", "") + user("3", "2", "c", ""), []string{"user a", "user b", "user c"}},
		"no parent there":                  {user("1", "gone", "a", ""), []string{"user a"}},
		"broken lines":                     {"{\n\x00\xff\n" + user("1", "", "a", "") + `{"type":"user","uuid":5}` + "\n[1]\n" + `{"type":"assistant","uuid":"2","parentUuid":"1","message":7}` + "\n", []string{"user a"}},
		"strange content":                  {user("1", "", "a", "") + said("user", "2", "1", `[{"type":"document"},7,{"type":"text","text":"b"}]`, ""), []string{"user a", `user [A block of type "document" was here.]|b`}},
		"nothing":                          {"", nil},
		"metadata alone":                   {`{"type":"custom-title","customTitle":"x","sessionId":"s"}` + "\n", nil},
		"a last line alone":                {strings.TrimSpace(user("1", "", "a", "")), []string{"user a"}},
		"calls in one answer": {
			user("1", "", "a", "") +
				strings.ReplaceAll(said("assistant", "2", "1", `[{"type":"tool_use","id":"x","name":"T","input":{}}]`, ""), "msg_2", "msg_0") +
				said("user", "3", "2", `[{"type":"tool_result","tool_use_id":"x","content":"one"}]`, "") +
				strings.ReplaceAll(said("assistant", "4", "3", `[{"type":"tool_use","id":"y","name":"T","input":{}}]`, ""), "msg_4", "msg_0") +
				said("user", "5", "4", `[{"type":"tool_result","tool_use_id":"y","content":[{"type":"text","text":"two"}]}]`, ""),
			[]string{"user a", "assistant call x|call y", "user result x one", "user result y two"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.jsonl")
			if err := os.WriteFile(path, []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			h, err := Load(path, Source{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range h.nodes {
				got = append(got, shown(h.nodes[i].message()))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none"), Source{}); err == nil {
		t.Error("a file that is not there was read")
	}
}

// Foreign transcripts may hold anything.
func FuzzLoad(f *testing.F) {
	f.Add(`{"type":"user","uuid":"1","parentUuid":"2","message":{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"base64"}}]}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "s.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := Load(path, Source{})
		if err != nil {
			t.Fatal(err)
		}
		if !h.Empty() {
			h.Until(h.End()).Seed("transcript", "s", true)
		}
		if _, err := OpenFile(path); err != nil {
			t.Fatal(err)
		}
	})
}
