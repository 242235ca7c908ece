package kernel_test

import (
	"strings"
	"testing"

	"go.uber.org/fx"

	"dsh/kernel"
)

func TestCheckDeclaration(t *testing.T) {
	none := func() nothing { return nothing{} }
	for name, tc := range map[string]struct {
		plugin kernel.Plugin
		want   string
	}{
		"true": {kernel.Define("p", "S.", none, func(kernel.Instance, nothing) fx.Option {
			return fx.Options(fx.Provide(func(greeter) *int { return nil }), fx.Provide(func() *string { return nil }, fx.Private), fx.Invoke(func(*string) {}))
		}, kernel.Needs[greeter](), kernel.Provides[*int]()), ""},
		"undeclared need": {kernel.Define("p", "S.", none, func(kernel.Instance, nothing) fx.Option {
			return fx.Invoke(func(greeter) {})
		}), "takes more, or provides less, than it declares"},
		"needless need": {kernel.Define("p", "S.", none, func(kernel.Instance, nothing) fx.Option {
			return fx.Options()
		}, kernel.Needs[greeter]()), "declares that it needs kernel_test.greeter, and does not"},
		"undeclared provide": {kernel.Define("p", "S.", none, func(kernel.Instance, nothing) fx.Option {
			return fx.Provide(func() *int { return nil })
		}), "provides *int without declaring it"},
		"missing provide": {kernel.Define("p", "S.", none, func(kernel.Instance, nothing) fx.Option {
			return fx.Options()
		}, kernel.Provides[*int]()), "missing type"},
		"invalid defaults": {kernel.Define("p", "S.", func() greeting { return greeting{} }, func(kernel.Instance, greeting) fx.Option {
			return fx.Options()
		}), "an empty row is not valid"},
		"bad name": {kernel.Define("P_x", "S.", none, func(kernel.Instance, nothing) fx.Option { return fx.Options() }), "kebab-case"},
	} {
		t.Run(name, func(t *testing.T) {
			err := kernel.CheckDeclaration(tc.plugin)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
