package settingsfile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/plugins/internal/settingsfile"
	"dsh/plugins/internal/textfile"
)

// Case B82: what people write is read, or refused with line and column.
func TestParse(t *testing.T) {
	const deny = `{"permissions":{"deny":["Bash(rm:*)"]}}`
	utf16 := func(e textfile.Encoding, s string) string {
		b, err := e.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, tc := range []struct{ name, text, want, err string }{
		{"plain", deny, deny, ""},
		{"a mark", "\xef\xbb\xbf" + deny, deny, ""},
		{"UTF-16, little end first", utf16(textfile.UTF16LE, deny), deny, ""},
		{"UTF-16, big end first", utf16(textfile.UTF16BE, deny), deny, ""},
		{"CRLF", "{\r\n  \"a\": 1,\r\n}\r\n", `{"a":1}`, ""},
		{"comments", "// head\n{ /* in\nlines */ \"a\": 1, // tail\n \"b\": [1, /* x */ 2] }\n// end", `{"a":1,"b":[1,2]}`, ""},
		{"trailing commas", `{"a":[1,2,],"b":{"c":"d",},}`, `{"a":[1,2],"b":{"c":"d"}}`, ""},
		{"a comma before a comment", "{\"a\":1, // why\n}", `{"a":1}`, ""},
		{"what looks like a comment", `{"a":"http://x/*y*/","b":"\"//","c":",}"}`, `{"a":"http://x/*y*/","b":"\"//","c":",}"}`, ""},
		{"names keep their case and dots (B81)", `{"GitHub":1,"github":2,"a.b":3}`, `{"GitHub":1,"github":2,"a.b":3}`, ""},
		{"empty", "", "", "1:1: the file is empty"},
		{"only a comment", "// nothing\n", "", "1:1: the file is empty"},
		{"only a mark", "\xef\xbb\xbf", "", "1:1: the file is empty"},
		{"an endless comment", "{\n  /* x\n}", "", "2:3: a comment begins here"},
		{"a list", `["a"]`, "", "1:1: a settings file holds one JSON object"},
		{"a missing comma", "{\n  \"a\": 1\n  \"b\": 2\n}", "", "3:3: "},
		{"columns count characters", "{\"é\": tru}", "", "1:10: "},
		{"the same key twice (B84)", "{\n \"deny\": [],\n \"deny\": []\n}", "", "3:2: "},
		{"only a comma", `{,}`, "", "1:2: "},
		{"two commas", `{"a":[1,,]}`, "", "1:9: "},
		{"no value", `{"a":,}`, "", "1:6: "},
		{"cut off", `{"a": [1`, "", "1:"},
		{"cut off in a string", `{"a": "x\`, "", "1:"},
		{"more behind", `{} {}`, "", "1:4: "},
		{"binary", "{\x00}", "", "1:1: this is no text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := settingsfile.Parse([]byte(tc.text))
			if tc.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
					t.Errorf("got %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := json.Unmarshal(d.JSON(), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			back, err := d.Bytes()
			if err != nil || string(back) != tc.text {
				t.Errorf("it came back as %q, %v", back, err)
			}
		})
	}
}

func TestAt(t *testing.T) {
	d, err := settingsfile.Parse([]byte("{\n  \"a\": {\"b/c\": [1,\n 2]},\n  \"\": 3\n}"))
	if err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string]string{
		"": "1:1", "/a": "2:3", "/a/b~1c": "2:9", "/a/b~1c/1": "3:2", "/a/gone": "2:3", "/a/b~1c/7": "2:9",
	} {
		line, col := d.At(pointer)
		if got := fmt.Sprintf("%d:%d", line, col); got != want {
			t.Errorf("%q is at %s, want %s", pointer, got, want)
		}
	}
}

// An edit leaves alone what it is not about.
func TestEdits(t *testing.T) {
	set := func(value any, path ...string) func(*settingsfile.Document) error {
		return func(d *settingsfile.Document) error { return d.Set(value, path...) }
	}
	remove := func(path ...string) func(*settingsfile.Document) error {
		return func(d *settingsfile.Document) error {
			ok, err := d.Remove(path...)
			if err == nil && !ok {
				err = errors.New("nothing was removed")
			}
			return err
		}
	}
	for _, tc := range []struct {
		name, before string
		change       func(*settingsfile.Document) error
		after        string
	}{
		{"into nothing", "{}\n", set("x", "a"), "{\n  \"a\": \"x\"\n}\n"},
		{"objects on the way", "{}\n", set(1, "a", "b"), "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n"},
		{"behind the last", "{\n  \"z\": 1,\n  \"a\": 2\n}", set(3, "m"), "{\n  \"z\": 1,\n  \"a\": 2,\n  \"m\": 3\n}"},
		{"its own indent", "{\n\t\"a\": {\n\t\t\"b\": 1\n\t}\n}\n", set([]int{2}, "a", "c"), "{\n\t\"a\": {\n\t\t\"b\": 1,\n\t\t\"c\": [\n\t\t\t2\n\t\t]\n\t}\n}\n"},
		{"behind a trailing comma", "{\n  \"a\": 1,\n}", set(2, "b"), "{\n  \"a\": 1,\n  \"b\": 2\n}"},
		{"behind a comment", "{\n  \"a\": 1 // why\n}", set(2, "b"), "{\n  \"a\": 1, // why\n  \"b\": 2\n}"},
		{"among comments only", "{\n  // nothing yet\n}", set(2, "b"), "{\n  // nothing yet\n  \"b\": 2\n}"},
		{"on one line", `{"a": 1}`, set(2, "b"), `{"a": 1, "b": 2}`},
		{"CRLF", "{\r\n  \"a\": 1\r\n}\r\n", set(2, "b"), "{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}\r\n"},
		{"a mark", "\xef\xbb\xbf{}", set(1, "a"), "\xef\xbb\xbf{\n  \"a\": 1\n}"},
		{"in the place of", "{\n  \"a\": [1, 2], // keep\n  \"b\": 1e3\n}", set("x", "a"), "{\n  \"a\": \"x\", // keep\n  \"b\": 1e3\n}"},
		{"a name to escape", "{}\n", set(1, `a"b`), "{\n  \"a\\\"b\": 1\n}\n"},
		{"remove the first", "{\n  \"a\": 1,\n  \"b\": 2\n}", remove("a"), "{\n  \"b\": 2\n}"},
		{"remove the last", "{\n  \"a\": 1, // one\n  \"b\": 2\n}", remove("b"), "{\n  \"a\": 1 // one\n}"},
		{"remove before a trailing comma", "{\n  \"a\": 1,\n  \"b\": 2,\n}", remove("b"), "{\n  \"a\": 1,\n}"},
		{"remove the only one", "{\n  \"a\": {\"b\": 1}\n}", remove("a", "b"), "{\n  \"a\": {}\n}"},
		{"remove on one line", `{"a": 1, "b": 2, "c": 3}`, remove("b"), `{"a": 1, "c": 3}`},
		{"remove the first on one line", `{"a": 1, "b": 2}`, remove("a"), `{"b": 2}`},
		{"remove the last on one line", `{"a": 1, "b": 2}`, remove("b"), `{"a": 1 }`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, err := settingsfile.Parse([]byte(tc.before))
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.change(d); err != nil {
				t.Fatal(err)
			}
			after, err := d.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.after, string(after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	d, err := settingsfile.Parse([]byte(`{"a": [1]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Set(1, "a", "b"); err == nil || !strings.Contains(err.Error(), `"a" is no object`) {
		t.Errorf("into a list: %v", err)
	}
	if ok, err := d.Remove("b"); ok || err != nil {
		t.Errorf("remove what is not there: %v, %v", ok, err)
	}
}

func TestEdit(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	set := func(key string) func(*settingsfile.Document) error {
		return func(d *settingsfile.Document) error { return d.Set(true, key) }
	}
	t.Run("new, with its folders", func(t *testing.T) {
		file := filepath.Join(dir, "a", "b", "settings.json")
		if err := settingsfile.Edit(ctx, file, 0o600, set("x")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	})
	t.Run("rights and links stay", func(t *testing.T) {
		file, link := filepath.Join(dir, "real.json"), filepath.Join(dir, "link.json")
		write(t, file, "{}")
		if err := os.Chmod(file, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(file, link); err != nil {
			t.Fatal(err)
		}
		if err := settingsfile.Edit(ctx, link, 0o600, set("x")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(link)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("the link: %v, %v", info, err)
		}
		if info, err = os.Stat(file); err != nil || info.Mode().Perm() != 0o640 || read(t, file) != "{\n  \"x\": true\n}" {
			t.Errorf("the file: %v, %v, %s", info, err, read(t, file))
		}
	})
	t.Run("a file that cannot be read stays", func(t *testing.T) {
		file := filepath.Join(dir, "broken.json")
		write(t, file, "{\n  nonsense")
		err := settingsfile.Edit(ctx, file, 0o600, set("x"))
		if err == nil || !strings.Contains(err.Error(), file+":2:4: ") || read(t, file) != "{\n  nonsense" {
			t.Errorf("got %v and %s", err, read(t, file))
		}
	})
	t.Run("a change that fails leaves all as it was", func(t *testing.T) {
		file := filepath.Join(dir, "kept.json")
		write(t, file, "{}")
		refuse := errors.New("no")
		if err := settingsfile.Edit(ctx, file, 0o600, func(d *settingsfile.Document) error {
			return errors.Join(d.Set(1, "x"), refuse)
		}); !errors.Is(err, refuse) || read(t, file) != "{}" {
			t.Errorf("got %v and %s", err, read(t, file))
		}
		names, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
		if err != nil || len(names) > 0 {
			t.Errorf("left behind: %v, %v", names, err)
		}
	})
	t.Run("edits at once all last", func(t *testing.T) {
		file := filepath.Join(dir, "many.json")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if err := settingsfile.Edit(ctx, file, 0o600, set(fmt.Sprint("k", i))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		d, err := settingsfile.Read(file)
		if err != nil || len(d.Keys()) != 20 {
			t.Errorf("%v: %s", err, read(t, file))
		}
	})
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := settingsfile.Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := settingsfile.Read(dir); err == nil || !strings.Contains(err.Error(), dir+": it is a directory") {
		t.Errorf("got %v", err)
	}
	big := filepath.Join(dir, "big")
	write(t, big, strings.Repeat(" ", settingsfile.MaxBytes)+"{}")
	if _, err := settingsfile.Read(big); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
}

func FuzzEdit(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":{"b":[1,],},}`, "{ // c\n\"a\" /* d */ : 1 /* e */ , }", `{"a":1,"x":2}`} {
		f.Add(seed, "x")
	}
	f.Fuzz(func(t *testing.T, text, key string) {
		d, err := settingsfile.Parse([]byte(text))
		if err != nil {
			return
		}
		key = strings.ToValidUTF8(key, "\ufffd") // what else a name turns into in JSON
		keys := d.Keys()
		for _, k := range append(keys, key) {
			had := d.Has(k)
			if err := d.Set([]any{"v"}, k); err != nil {
				t.Fatalf("set %q: %v", k, err)
			}
			if ok, err := d.Remove(k); !ok || err != nil {
				t.Fatalf("remove %q (there before: %v): %v, %v", k, had, ok, err)
			}
		}
		if rest := d.Keys(); len(rest) > 0 {
			t.Fatalf("left: %q", rest)
		}
	})
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
