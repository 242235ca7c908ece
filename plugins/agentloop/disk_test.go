package agentloop_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/plugins/agentloop"
	"dsh/plugins/sessionjsonl"
	"dsh/sdkproto"
)

// onDisk puts a rig's sessions into files below dir.
func onDisk(dir string) func(*agentloop.Params) {
	return func(p *agentloop.Params) {
		p.Store = sessionjsonl.NewStore(filepath.Join(dir, "sessions.d"), filepath.Join(dir, "spill"), slog.New(slog.DiscardHandler))
		p.Config.Retries.Delay, p.Config.Retries.MaxDelay = kernel.Duration(time.Millisecond), kernel.Duration(time.Millisecond)
	}
}

// TestOnDisk runs every kind of turn over the file store, three processes one
// after the other. What a request says is compared with the file each time.
func TestOnDisk(t *testing.T) {
	dir := t.TempDir()
	for life := range 3 {
		t.Run(fmt.Sprint("process ", life+1), func(t *testing.T) {
			r := newRig(t, onDisk(dir))
			r.tool("echo", "p", echo)
			started := make(chan struct{}, 1)
			r.tool("wait", "", func(ctx context.Context, _ tool.Invocation) (tool.Result, error) {
				started <- struct{}{}
				<-ctx.Done()
				return tool.TextResult("stopped"), nil
			})
			failed := false
			r.model.on(func(ctx context.Context, _ int, req llm.Request, y yield) {
				last := req.Messages[len(req.Messages)-1]
				switch what := lastUserText(req); {
				case last.Source.Kind == sdkproto.SourceTool:
					say(y, strings.Join(results(req), "|"))
				case what == "tools":
					ask(y, callBlock("c1", "echo", `{"a": 1}`), callBlock("c2", "echo", "not JSON"), callBlock("c3", "none", ""))
				case what == "retry" && !failed:
					failed = true
					_ = text(y, 0, "lost") && text(y, 0, "more") && text(y, 0, "again") && fails(y, llm.CodeServer)
				case what == "stop me":
					ask(y, callBlock("c1", "wait", "{}"), callBlock("c2", "wait", "{}"))
				default:
					_ = begin(y, 0, sdkproto.BlockText)
					for range 700 {
						if !text(y, 0, "wörd\n\u2028") {
							return
						}
					}
					finish(y, sdkproto.FinishStop)
				}
			})
			a, rec := r.open("s")
			for _, what := range []string{"long", "tools", "retry", ""} {
				send(t, a, what)
				idle(t, a)
			}
			send(t, a, "stop me")
			<-started
			send(t, a, "never runs")
			must(t, r.root.Quiesce(t.Context()))
			got := rec.brief()
			if end := got[len(got)-2]; end != fmt.Sprintf("turn/end %d aborted disposed", 5*(life+1)) {
				t.Errorf("ends with %q", end)
			}
			for _, l := range got {
				if strings.Contains(l, "error INTERNAL") {
					t.Errorf("%s\n%s", l, r.stderr)
				}
			}
		})
	}
	store := sessionjsonl.NewStore(filepath.Join(dir, "sessions.d"), filepath.Join(dir, "spill"), slog.New(slog.DiscardHandler))
	var records []*session.Record
	must(t, store.Read(t.Context(), "s", 0, func(r *session.Record) error { records = append(records, r); return nil }))
	whole(t, records)
}

// TestFailedOpenLeavesNoFile is the promise of agent.Registry.Open.
func TestFailedOpenLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, onDisk(dir))
	for _, change := range []func(*agent.Spec){
		func(s *agent.Spec) { s.ID = "" },
		func(s *agent.Spec) { s.Route.Provider = "nobody" },
		func(s *agent.Spec) { s.Tools = &tool.Filter{Allow: []string{"nope"}} },
	} {
		s := spec("s")
		change(&s)
		if _, err := r.reg.Open(t.Context(), s, agent.OpenAny); err == nil {
			t.Error("no error")
		}
	}
	if _, err := r.reg.Open(t.Context(), spec("s"), agent.OpenResume); err == nil {
		t.Error("no error")
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(files) > 0 {
		t.Errorf("left %q, %v", files, err)
	}
	_, _ = r.open("s")
	must(t, r.reg.Close(t.Context(), "s", agent.Cause{}))
	if files, err := os.ReadDir(filepath.Join(dir, "sessions.d")); err == nil && len(files) > 0 {
		t.Errorf("a session in which nothing happened left %v", files)
	}
}
