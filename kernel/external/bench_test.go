package external

import (
	"context"
	"fmt"
	"testing"

	"dsh/kernel"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto/plugin"
)

// BenchmarkCall is a call of a tool through a plugin, beside the same tool in the
// harness: the difference is to be no more than a millisecond.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{10, 1000, 20_000} {
		arguments := fmt.Sprintf(`{"what":"large","text":"%d"}`, size)
		b.Run(fmt.Sprintf("plugin/%d", size), func(b *testing.B) {
			tools := tool.NewRegistry()
			byHand(b, "tools", Params{Tools: tools})
			benchmark(b, tools, arguments)
		})
		b.Run(fmt.Sprintf("inside/%d", size), func(b *testing.B) {
			o := kernel.NewOwner(context.Background(), "test")
			defer o.Close(context.Background())
			tools := tool.NewRegistry()
			inside := do(&goodConfig{})
			err := tools.Register(o, tool.Typed(tool.Spec{Name: "do"}, func(ctx context.Context, in tool.Invocation, p doArgs) (tool.Result, error) {
				r, err := inside(ctx, plugin.Call{}, p)
				return tool.Result{Content: r.Content}, err
			}))
			if err != nil {
				b.Fatal(err)
			}
			benchmark(b, tools, arguments)
		})
	}
}

func benchmark(b *testing.B, tools *tool.Registry, arguments string) {
	pipeline, view := tool.NewPipeline(), tools.View(nil)
	in := tool.Invocation{Emit: func(...session.Draft) error { return nil }}
	for b.Loop() {
		if r := pipeline.Call(b.Context(), view, "do", arguments, in); r.IsError {
			b.Fatal(text(r))
		}
	}
}
