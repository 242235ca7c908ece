package external

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestInspect(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	log := slog.New(slog.DiscardHandler)
	d, err := Inspect(t.Context(), executableNamed(t, "good"), log)
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, string(d.ConfigSchema), `"greeting":{"type":"string","description":"What to say first."}`, `"additionalProperties":false`)
	d.ConfigSchema = nil
	want := &Description{
		Name: "good", Version: "1.2.3", Summary: "Does what it is told.",
		Capabilities: []string{"tools", "models", "hooks", "prompt", "commands"}, Hooks: []string{"tool.before", "tool.after", "prompt"},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = Inspect(t.Context(), executableNamed(t, "quitting"), log)
	if err == nil {
		t.Fatal("it describes itself")
	}
	wantAll(t, err.Error(), "it ended before its handshake (exit status 7)")
}
