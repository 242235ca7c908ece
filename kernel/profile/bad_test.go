package profile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"dsh/kernel/profile"
)

// builtin is a small set of embedded profiles.
func builtin() fstest.MapFS {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	return fstest.MapFS{
		"base.yaml": file("plugins:\n  core: {use: core}\n  loop:\n    use: agentloop\n    config: {steps: 500, tags: [a, b]}\n"),
		"sdk.yaml":  file("summary: the SDK server\nextends: base\nplugins:\n  rpc: {use: jsonrpc}\n  loop: {config: {steps: 9}}\n"),
	}
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// messages gives the joined errors one by one; each must be a *profile.Error.
func messages(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%T does not join errors: %v", err, err)
	}
	var all []string
	for _, e := range joined.Unwrap() {
		var located *profile.Error
		if !errors.As(e, &located) {
			t.Fatalf("%T is not a *profile.Error: %v", e, e)
		}
		all = append(all, e.Error())
	}
	return all
}

// TestBadFiles loads every file in testdata/bad, whose first line lists the
// errors it must give, without the file's name and parted by " || ". A last one
// that ends in a colon need only be the beginning.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(data), "\n")
			text, ok := strings.CutPrefix(first, "# want: ")
			if !ok {
				t.Fatal("the first line is no `# want: `")
			}
			want := strings.Split(text, " || ")
			_, err = profile.Load(profile.Options{Name: file, Embedded: builtin()})
			got := messages(t, err)
			if len(got) != len(want) {
				t.Fatalf("got %d errors, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
			}
			for i := range want {
				full := file + ":" + want[i]
				if got[i] != full && !(i == len(want)-1 && strings.HasSuffix(full, ":") && strings.HasPrefix(got[i], full)) {
					t.Errorf("got  %s\nwant %s", got[i], full)
				}
			}
		})
	}
}
