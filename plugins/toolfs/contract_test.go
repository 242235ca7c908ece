package toolfs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/kernel/tool/tooltest"
)

func TestDeclaration(t *testing.T) {
	if err := kernel.CheckDeclaration(Plugin); err != nil {
		t.Error(err)
	}
}

func TestContract(t *testing.T) {
	x := setUp(t, defaults())
	x.Put("a.txt", "one\ntwo\n")
	t.Run("read", func(t *testing.T) {
		x.Put("huge", strings.Repeat("text\n", 2000))
		if err := os.Truncate(x.Path("huge"), 1<<40); err != nil {
			t.Fatal(err)
		}
		tooltest.TestTool(t, x.f.read, tooltest.Options{
			CWD:      x.Dir,
			Good:     []string{`{"file_path":"a.txt","offset":1,"limit":5}`, fmt.Sprintf(`{"file_path":%q}`, x.Path("a.txt"))},
			NotEmpty: []string{"file_path"},
			Slow:     `{"file_path":"huge","offset":1000000}`,
		})
	})
	t.Run("write", func(t *testing.T) {
		tooltest.TestTool(t, x.f.write, tooltest.Options{
			CWD:      x.Dir,
			Good:     []string{`{"file_path":"b/c.txt","content":"hello\n"}`, `{"file_path":"b/d.txt","content":""}`},
			NotEmpty: []string{"file_path"},
		})
	})
	t.Run("edit", func(t *testing.T) {
		x.Put("e.txt", "x y\n")
		tooltest.TestTool(t, x.f.edit, tooltest.Options{
			CWD: x.Dir,
			// The file grows by one letter a call, so each call finds its text.
			Good:     []string{`{"file_path":"e.txt","old_string":" y","new_string":"x y","replace_all":true}`},
			NotEmpty: []string{"file_path"},
		})
	})
}
