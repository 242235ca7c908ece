package dialect_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto"
)

func TestCheck(t *testing.T) {
	for d, good := range map[dialect.Dialect]bool{"dsh": true, "claude": true, "": false, "Claude": false} {
		err := d.Check()
		var at *kernel.FieldError
		if good != (err == nil) || !good && (!errors.As(err, &at) || at.Pointer != "/dialect") {
			t.Errorf("%q: %v", d, err)
		}
	}
}

func TestBare(t *testing.T) {
	image := sdkproto.Block{Type: sdkproto.BlockImage}
	for name, tc := range map[string]struct{ in, want tool.Result }{
		"a failure":          {tool.ErrorResult("E", "C", "Error: Error: x"), tool.ErrorResult("E", "C", "Error: x")},
		"without the prefix": {tool.ErrorResult("E", "C", "Exit code 1"), tool.ErrorResult("E", "C", "Exit code 1")},
		"a good result":      {tool.TextResult("Error: x"), tool.TextResult("Error: x")},
		"an image":           {tool.Result{IsError: true, Content: []sdkproto.Block{image}}, tool.Result{IsError: true, Content: []sdkproto.Block{image}}},
		"nothing":            {tool.Result{IsError: true}, tool.Result{IsError: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, dialect.Bare(tc.in), cmpopts.IgnoreUnexported(sdkproto.Block{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
