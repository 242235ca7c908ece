package toolsearch

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/tool/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDeclaration(t *testing.T) {
	if err := kernel.CheckDeclaration(Plugin); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	c := defaults()
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	wrong, ok := (&Config{}).Validate().(interface{ Unwrap() []error })
	if !ok || len(wrong.Unwrap()) != 6 {
		t.Errorf("zeros: %v, want six findings", wrong)
	}
}

func TestContract(t *testing.T) {
	x := setUp(t, defaults())
	x.Put("a/b.go", "package b\n")
	x.Put("a/c.txt", "text\n")
	x.much()
	t.Run("glob", func(t *testing.T) {
		tooltest.TestTool(t, x.s.glob, tooltest.Options{
			CWD:      x.Dir,
			Good:     []string{`{"pattern":"**/*.go","path":"a"}`, `{"pattern":"nothing"}`},
			NotEmpty: []string{"pattern"},
			Huge:     `{"pattern":"much/**"}`,
		})
	})
	t.Run("grep", func(t *testing.T) {
		x.Put("huge/f", strings.Repeat("text\n", 2000))
		if err := os.Truncate(x.Path("huge/f"), 1<<40); err != nil {
			t.Fatal(err)
		}
		tooltest.TestTool(t, x.s.grep, tooltest.Options{
			CWD:  x.Dir,
			Good: []string{`{"pattern":"pack.*","path":"a","include":"*.go"}`, `{"pattern":"nothing","path":"a"}`},
			Slow: `{"pattern":"nothing","path":"huge"}`,
			Huge: `{"pattern":"x","path":"much"}`,
		})
	})
}

// much makes files whose names and lines are more than a result holds.
func (x *fixture) much() {
	x.T.Helper()
	for i := range 200 {
		x.Put(fmt.Sprintf("much/%s%d/f", strings.Repeat("long", 60), i), strings.Repeat("x", 1000)+"\n")
	}
}
