package toolsearch

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/sdkproto"
)

func claudeSetUp(t testing.TB, change ...func(*Config)) *fixture {
	t.Helper()
	c := defaults()
	c.Dialect = "claude"
	for _, f := range change {
		f(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return setUp(t, c)
}

func TestClaudeConformance(t *testing.T) {
	x := claudeSetUp(t)
	x.Put("a/b.go", "package b\n")
	x.Put("a/c.txt", "text\n")
	x.much()
	x.Put("huge/f", strings.Repeat("text\n", 2000))
	if err := os.Truncate(x.Path("huge/f"), 1<<40); err != nil {
		t.Fatal(err)
	}
	t.Run("Glob", func(t *testing.T) {
		tooltest.TestTool(t, x.s.glob, tooltest.Options{CWD: x.Dir, Good: []string{`{"pattern":"**/*.go","path":"a"}`, `{"pattern":"nothing"}`}, NotEmpty: []string{"pattern"}, Huge: `{"pattern":"much/**"}`})
	})
	t.Run("Grep", func(t *testing.T) {
		tooltest.TestTool(t, x.s.grep, tooltest.Options{CWD: x.Dir, Good: []string{
			`{"pattern":"pack.*","path":"a","glob":"*.go","type":"go","output_mode":"content","-A":1,"-B":1,"-C":1,"context":1,"-n":true,"-i":true,"-o":false,"head_limit":5,"offset":0,"multiline":false}`,
			`{"pattern":"nothing","path":"a"}`, `{"pattern":"text","path":"a","output_mode":"count","multiline":true}`,
		}, Slow: `{"pattern":"nothing","path":"huge"}`, Huge: `{"pattern":"x","path":"much","output_mode":"content","head_limit":0}`})
	})
}

// TestClaudeSpecs compares with the table of spec stream-json 9.
func TestClaudeSpecs(t *testing.T) {
	x := claudeSetUp(t)
	for _, tc := range []struct {
		tool    tool.Tool
		name    string
		inputs  string
		subject tool.Subject
	}{
		{x.s.glob, "Glob", "path? pattern", tool.Subject{Rule: "Glob", Kind: "pattern", Member: "pattern", Dir: "path"}},
		{x.s.grep, "Grep", "-A? -B? -C? -i? -n? -o? context? glob? head_limit? multiline? offset? output_mode? path? pattern type?", tool.Subject{Rule: "Grep", Kind: "path", Member: "path"}},
	} {
		spec := tc.tool.Spec()
		if got := tooltest.Inputs(t, tc.tool); got != tc.inputs || spec.Name != tc.name || !spec.ReadOnly || spec.Subject != tc.subject {
			t.Errorf("%s: inputs %s, spec %+v", tc.name, got, spec)
		}
	}
}

// say calls a tool and gives the text and the structured result, with the
// fixture's folder as $DIR and without the time.
func (x *fixture) say(name string, a args) (string, map[string]any) {
	x.T.Helper()
	res := x.Call(x.T.Context(), name, a)
	text := strings.ReplaceAll(sdkproto.TextOf(res.Content), x.Dir, "$DIR")
	if res.Meta == nil {
		return text, nil
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(res.Meta), x.Dir, "$DIR")), &m); err != nil {
		x.T.Fatal(err)
	}
	if d, ok := m["durationMs"].(float64); ok && d >= 0 {
		delete(m, "durationMs")
	}
	return text, m
}

func object(t *testing.T, text string) (m map[string]any) {
	t.Helper()
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestClaudeGlob(t *testing.T) {
	x := claudeSetUp(t, func(c *Config) { c.MaxFiles = 3 })
	x.files("new.go", "a/middle.go", "a/b/old.go")
	for name, tc := range map[string]struct {
		args       args
		text, meta string
	}{
		"newest first": {args{"pattern": "**/*.go"}, "$DIR/new.go\n$DIR/a/middle.go\n$DIR/a/b/old.go",
			`{"numFiles":3,"filenames":["$DIR/new.go","$DIR/a/middle.go","$DIR/a/b/old.go"],"truncated":false}`},
		"below a path": {args{"pattern": "*.go", "path": "a"}, "$DIR/a/middle.go", `{"numFiles":1,"filenames":["$DIR/a/middle.go"],"truncated":false}`},
		"none":         {args{"pattern": "**/*.c"}, "No files found", `{"numFiles":0,"filenames":[],"truncated":false}`},
		"none there":   {args{"pattern": "*.c"}, "No files found (without ** a pattern looks only in the folders it names)", `{"numFiles":0,"filenames":[],"truncated":false}`},
		"no folder":    {args{"pattern": "*.c", "path": "no"}, `cannot search "$DIR/no": not found`, ``},
		"no pattern":   {args{"pattern": " "}, `the pattern is empty; use ** for all files`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			text, meta := x.say("Glob", tc.args)
			if text != tc.text {
				t.Errorf("got %q, want %q", text, tc.text)
			}
			if diff := cmp.Diff(object(t, tc.meta), meta); diff != "" {
				t.Errorf("meta (-want +got):\n%s", diff)
			}
		})
	}
	x.files("1.go", "2.go", "3.go", "4.go")
	if text, meta := x.say("Glob", args{"pattern": "?.go"}); text != "$DIR/1.go\n$DIR/2.go\n$DIR/3.go\n(3 of 4 files, those changed last; use a narrower pattern or path to see others)" || meta["truncated"] != true {
		t.Errorf("got %q %v", text, meta)
	}
}

func TestClaudeGrep(t *testing.T) {
	x := claudeSetUp(t)
	x.Put("a.go", "package a\n\nfunc One() {}\nfunc Two() {}\n// end\n")
	x.Put("b.ts", "one\ntwo\none ONE\n")
	x.Put("sub/c.go", "nothing\r\none\r\nlast")
	x.Put("sub/bin", "one\x00")
	content := func(files int, names, content string, n int, more string) string {
		return fmt.Sprintf(`{"mode":"content","numFiles":%d,"filenames":[%s],"content":%q,"numLines":%d%s}`, files, names, content, n, more)
	}
	const a, b, c = `"$DIR/a.go"`, `"$DIR/b.ts"`, `"$DIR/sub/c.go"`
	for name, tc := range map[string]struct {
		args       args
		text, meta string
	}{
		"paths are the default": {args{"pattern": "one"}, "$DIR/b.ts\n$DIR/sub/c.go", `{"mode":"files_with_matches","numFiles":2,"filenames":[` + b + `,` + c + `]}`},
		"no paths":              {args{"pattern": "absent"}, "No files found", `{"mode":"files_with_matches","numFiles":0,"filenames":[]}`},
		"no lines":              {args{"pattern": "absent", "output_mode": "content"}, "No matches found", content(0, "", "", 0, "")},
		"lines": {args{"pattern": "one", "output_mode": "content"}, "$DIR/b.ts:1:one\n$DIR/b.ts:3:one ONE\n$DIR/sub/c.go:2:one",
			content(2, b+","+c, "$DIR/b.ts:1:one\n$DIR/b.ts:3:one ONE\n$DIR/sub/c.go:2:one", 3, "")},
		"without numbers":     {args{"pattern": "two", "output_mode": "content", "-n": false}, "$DIR/b.ts:two", content(1, b, "$DIR/b.ts:two", 1, "")},
		"ignore case":         {args{"pattern": "ONE", "-i": true}, "$DIR/a.go\n$DIR/b.ts\n$DIR/sub/c.go", `{"mode":"files_with_matches","numFiles":3,"filenames":[` + a + `,` + b + `,` + c + `]}`},
		"a glob":              {args{"pattern": "(?i)one", "glob": "*.go"}, "$DIR/a.go\n$DIR/sub/c.go", `{"mode":"files_with_matches","numFiles":2,"filenames":[` + a + `,` + c + `]}`},
		"a glob with a slash": {args{"pattern": "(?i)one", "glob": "sub/**"}, "$DIR/sub/c.go", `{"mode":"files_with_matches","numFiles":1,"filenames":[` + c + `]}`},
		"not a glob":          {args{"pattern": "(?i)one", "glob": "!*.go"}, "$DIR/b.ts", `{"mode":"files_with_matches","numFiles":1,"filenames":[` + b + `]}`},
		"two globs":           {args{"pattern": "(?i)one", "glob": "*.{ts,tsx},a.*"}, "$DIR/a.go\n$DIR/b.ts", `{"mode":"files_with_matches","numFiles":2,"filenames":[` + a + `,` + b + `]}`},
		"a type":              {args{"pattern": "(?i)one", "type": "ts"}, "$DIR/b.ts", `{"mode":"files_with_matches","numFiles":1,"filenames":[` + b + `]}`},
		"a file":              {args{"pattern": "one", "path": "sub/c.go", "output_mode": "content"}, "$DIR/sub/c.go:2:one", content(1, c, "$DIR/sub/c.go:2:one", 1, "")},
		"counts": {args{"pattern": "(?i)one", "output_mode": "count"}, "$DIR/a.go:1\n$DIR/b.ts:2\n$DIR/sub/c.go:1\n\nTotal: 4 in 3 files",
			`{"mode":"count","numFiles":3,"filenames":[` + a + `,` + b + `,` + c + `],"numMatches":4}`},
		"only what matches": {args{"pattern": "(?i)one", "glob": "b.ts", "output_mode": "content", "-o": true}, "$DIR/b.ts:1:one\n$DIR/b.ts:3:one\n$DIR/b.ts:3:ONE",
			content(1, b, "$DIR/b.ts:1:one\n$DIR/b.ts:3:one\n$DIR/b.ts:3:ONE", 3, "")},
		"only what matches, without its surroundings": {args{"pattern": "two", "output_mode": "content", "-o": true, "-C": 1}, "$DIR/b.ts:2:two", content(1, b, "$DIR/b.ts:2:two", 1, "")},
		"after": {args{"pattern": "func One", "output_mode": "content", "-A": 1}, "$DIR/a.go:3:func One() {}\n$DIR/a.go-4-func Two() {}",
			content(1, a, "$DIR/a.go:3:func One() {}\n$DIR/a.go-4-func Two() {}", 2, "")},
		"before": {args{"pattern": "func", "output_mode": "content", "-B": 1}, "$DIR/a.go-2-\n$DIR/a.go:3:func One() {}\n$DIR/a.go:4:func Two() {}",
			content(1, a, "$DIR/a.go-2-\n$DIR/a.go:3:func One() {}\n$DIR/a.go:4:func Two() {}", 3, "")},
		"around, in groups": {args{"pattern": "package|end|last", "output_mode": "content", "context": 1, "glob": "*.go"},
			"$DIR/a.go:1:package a\n$DIR/a.go-2-\n--\n$DIR/a.go-4-func Two() {}\n$DIR/a.go:5:// end\n--\n$DIR/sub/c.go-2-one\n$DIR/sub/c.go:3:last",
			content(2, a+","+c, "$DIR/a.go:1:package a\n$DIR/a.go-2-\n--\n$DIR/a.go-4-func Two() {}\n$DIR/a.go:5:// end\n--\n$DIR/sub/c.go-2-one\n$DIR/sub/c.go:3:last", 6, "")},
		"cut between groups": {args{"pattern": "package|end", "output_mode": "content", "-C": 1, "head_limit": 2},
			"$DIR/a.go:1:package a\n$DIR/a.go-2-\n\n(cut at head_limit 2, and there are more; use offset 2 to go on)",
			content(1, a, "$DIR/a.go:1:package a\n$DIR/a.go-2-", 2, `,"appliedLimit":2`)},
		"a limit": {args{"pattern": "(?i)one", "head_limit": 2}, "$DIR/a.go\n$DIR/b.ts\n\n(cut at head_limit 2, and there are more; use offset 2 to go on)",
			`{"mode":"files_with_matches","numFiles":2,"filenames":[` + a + `,` + b + `],"appliedLimit":2}`},
		"an offset": {args{"pattern": "(?i)one", "head_limit": 2, "offset": 2}, "$DIR/sub/c.go",
			`{"mode":"files_with_matches","numFiles":1,"filenames":[` + c + `],"appliedOffset":2}`},
		"just enough": {args{"pattern": "one", "output_mode": "content", "head_limit": 3}, "$DIR/b.ts:1:one\n$DIR/b.ts:3:one ONE\n$DIR/sub/c.go:2:one",
			content(2, b+","+c, "$DIR/b.ts:1:one\n$DIR/b.ts:3:one ONE\n$DIR/sub/c.go:2:one", 3, "")},
		"over lines": {args{"pattern": `one.*?o$`, "output_mode": "content", "multiline": true}, "$DIR/b.ts:1:one\n$DIR/b.ts:2:two",
			content(1, b, "$DIR/b.ts:1:one\n$DIR/b.ts:2:two", 2, "")},
		"over lines, only": {args{"pattern": `ne\nt`, "output_mode": "content", "multiline": true, "-o": true}, "$DIR/b.ts:1:ne\n$DIR/b.ts:2:t",
			content(1, b, "$DIR/b.ts:1:ne\n$DIR/b.ts:2:t", 2, "")},
		"not over lines": {args{"pattern": `one\ntwo`}, "No files found", `{"mode":"files_with_matches","numFiles":0,"filenames":[]}`},
		"a bad pattern":  {args{"pattern": "a(b"}, "the pattern is not a regular expression in RE2 syntax: error parsing regexp: missing closing ): `a(b`; look-around and back-references do not exist in it, and \\ makes a special character an ordinary one", ""},
		"a bad glob":     {args{"pattern": "a", "glob": "["}, `glob "[" cannot be used: a bracket or brace is not closed; put \ before one that is meant as it is`, ""},
		"no such folder": {args{"pattern": "a", "path": "no"}, `cannot search "$DIR/no": not found`, ""},
		"no such limit":  {args{"pattern": "a", "head_limit": -1}, "-A, -B, -C, context, head_limit and offset must be 0 or more", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text, meta := x.say("Grep", tc.args)
			if text != tc.text {
				t.Errorf("got\n%s\nwant\n%s", text, tc.text)
			}
			if diff := cmp.Diff(object(t, tc.meta), meta); diff != "" {
				t.Errorf("meta (-want +got):\n%s", diff)
			}
		})
	}
	if text, _ := x.say("Grep", args{"pattern": "a", "type": "cobol"}); !strings.HasPrefix(text, `type "cobol" is not known; there are c, clojure,`) {
		t.Errorf("got %q", text)
	}
}

// TestClaudeGrepBounds: many matches need little room, and all modes say what they
// leave out (case B67).
func TestClaudeGrepBounds(t *testing.T) {
	x := claudeSetUp(t)
	x.Put("many", strings.Repeat("hit\n", 300_000))
	if text, meta := x.say("Grep", args{"pattern": "hit", "output_mode": "count"}); meta["numMatches"] != 300_000.0 {
		t.Errorf("got %q", text)
	}
	text, meta := x.say("Grep", args{"pattern": "hit", "output_mode": "content"})
	if meta["numLines"] != 250.0 || meta["appliedLimit"] != 250.0 || !strings.HasSuffix(text, "(cut at head_limit 250, and there are more; use offset 250 to go on)") {
		t.Errorf("%d bytes: %v", len(text), meta["numLines"])
	}
	for _, multiline := range []bool{false, true} {
		text, meta = x.say("Grep", args{"pattern": "hit", "output_mode": "content", "head_limit": 0, "offset": 100, "multiline": multiline})
		if len(text) > maxResult+200 || !strings.HasPrefix(text, "$DIR/many:101:hit\n") || !strings.Contains(text, "the result is full") || meta["appliedLimit"] != nil {
			t.Errorf("%d bytes: %.60q", len(text), text)
		}
	}
	x.Put("large", strings.Repeat("line\n", maxAcross/5+1))
	text, _ = x.say("Grep", args{"pattern": "line", "path": "large", "multiline": true})
	if text != "No files found\n\n(1 file larger than 4 MiB left out, because multiline needs them whole)" {
		t.Errorf("got %q", text)
	}
}

// TestAcross: the matches are those that the library finds in one go.
func TestAcross(t *testing.T) {
	texts := []string{"", "\n", "a", "aa\nab\nba\n", "é\xffé\xff\xffa\n", "foo bar\nbar foo\n\nfoo", strings.Repeat("ab\n", 50), "世界\n世"}
	for _, pattern := range []string{"a", "a*", "^", "$", `\b`, `\B`, "a.*b", "(?U)a.*b", `\bfoo\b`, "é?", "^.", ".$", "b\n", "a|ab", `x*`, `\n`, "世", `(?i)FOO`} {
		a, err := newAcrossLines(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			var got [][]int
			if err := a.each(t.Context(), []byte(text), func(start, end int) bool {
				got = append(got, []int{start, end})
				return len(got) < 1000
			}); err != nil {
				t.Fatal(err)
			}
			want := regexp.MustCompile(`(?ms)`+pattern).FindAllIndex([]byte(text), -1)
			// The library leaves an empty match out that touches the one before.
			var kept [][]int
			for i, at := range got {
				if at[0] == at[1] && i > 0 && got[i-1][1] == at[0] && got[i-1][0] < got[i-1][1] {
					continue
				}
				kept = append(kept, at)
			}
			if diff := cmp.Diff(want, kept); diff != "" {
				t.Errorf("%q in %q (-want +got):\n%s", pattern, text, diff)
			}
		}
	}
}

// FuzzGrep looks for panics and for searches that do not end.
func FuzzGrep(f *testing.F) {
	f.Add("a.b", "a\nb\n", true, 1)
	f.Fuzz(func(t *testing.T, pattern, content string, multiline bool, context int) {
		x := claudeSetUp(t, func(c *Config) { c.TimeoutMs = int(5 * time.Second / time.Millisecond) })
		x.Put("f", content)
		x.say("Grep", args{"pattern": pattern, "output_mode": "content", "multiline": multiline, "-C": context % 5})
	})
}
