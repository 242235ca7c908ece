package compaction_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"dsh/kernel/hook"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// TestHooks: hooks hear of a summary before and after it, once for each model
// request, and may forbid it (spec stream-json 6.2, 11.9).
func TestHooks(t *testing.T) {
	for name, verdict := range map[string]string{"allowed": `{}`, "forbidden": `{"decision":"block","reason":"keep it all"}`} {
		t.Run(name, func(t *testing.T) {
			r := boot(t, &narrow{window: limit, limit: limit}, t.TempDir(), "{keepTokens: 500}")
			var mu sync.Mutex
			var heard []string
			call := func(output string) func(context.Context, hook.Call) (json.RawMessage, error) {
				return func(_ context.Context, in hook.Call) (json.RawMessage, error) {
					mu.Lock()
					defer mu.Unlock()
					heard = append(heard, string(in.Input))
					return json.RawMessage(output), nil
				}
			}
			if err := r.engine.Register(r.owner, []hook.Hook{
				{Event: hook.PreCompact, Matcher: "auto", Call: call(verdict)}, {Event: hook.PostCompact, Matcher: "auto", Call: call(`{}`)},
				{Event: hook.PreCompact, Matcher: "manual", Call: call(`{"decision":"block"}`)},
			}); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				r.prompt("say 3000")
				mu.Lock()
				enough := len(heard) > 0
				mu.Unlock()
				if enough {
					break
				}
			}
			shortened := slices.ContainsFunc(r.records(0), func(rec *session.Record) bool { return rec.Event.Type == sdkproto.TypeCompactionSummary })
			mu.Lock()
			defer mu.Unlock()
			all := strings.Join(heard, "\n")
			if name == "forbidden" {
				if shortened || strings.Contains(all, hook.PostCompact) || len(heard) == 0 {
					t.Errorf("shortened: %v; heard\n%s", shortened, all)
				}
				return
			}
			if !shortened || len(heard) != 2 || !strings.Contains(heard[0], `"custom_instructions":null`) || !strings.Contains(heard[0], `"trigger":"auto"`) ||
				!strings.Contains(heard[1], "GOALS AND STATE") || !strings.Contains(heard[1], `"compact_summary"`) {
				t.Errorf("shortened: %v; heard\n%s", shortened, all)
			}
		})
	}
}
