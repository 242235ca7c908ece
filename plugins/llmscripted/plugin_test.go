package llmscripted_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/kerneltest"
	"dsh/kernel/llm"
	"dsh/plugins/llmscripted"
)

// TestProfile starts the plugin from a profile: its script comes from the row or
// from DSH_SCRIPT (decision D11), and one that is wrong fails the barrier, which
// is what `initialize` waits for, with file and line.
func TestProfile(t *testing.T) {
	good := filepath.Join("testdata", "good", "text.yaml")
	bad := filepath.Join("testdata", "bad", "syntax.yaml")
	for _, tc := range []struct {
		name, row, env string
		provider       string
		fails          string
	}{
		{name: "built-in", row: "{use: llm-scripted}", provider: "scripted"},
		{name: "other provider", row: "{use: llm-scripted, config: {provider: deepseek-official}}", provider: "deepseek-official"},
		{name: "file", row: "{use: llm-scripted, config: {script: " + filepath.ToSlash(good) + "}}", provider: "scripted"},
		{name: "environment", row: "{use: llm-scripted}", env: bad, provider: "scripted", fails: bad + ":3: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var router *llm.Router
			plugins := []kernel.Plugin{
				llmscripted.Plugin,
				kernel.Define("registries", "Stands in for core.", func() struct{} { return struct{}{} },
					func(kernel.Instance, struct{}) fx.Option {
						return fx.Provide(func() *llm.Router { router = llm.NewRouter(); return router })
					}, kernel.Provides[*llm.Router]()),
			}
			files := fstest.MapFS{"p.yaml": {Data: []byte(
				"env: {DSH_SCRIPT: scripted.script}\nplugins:\n  core: {use: registries}\n  scripted: " + tc.row + "\n")}}
			b := kerneltest.Boot(t, kerneltest.Options{
				Profile: "p", FS: files, Plugins: plugins,
				Env: func(key string) (string, bool) {
					if key == "DSH_SCRIPT" && tc.env != "" {
						return tc.env, true
					}
					return "", false
				},
			})
			err := b.Kernel.Ready().Wait(context.Background())
			if tc.fails == "" && err != nil || tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)) {
				t.Errorf("the barrier gives %v, want %q", err, tc.fails)
			}
			if _, err := router.Lookup(tc.provider); err != nil {
				t.Error(err)
			}
		})
	}
}
