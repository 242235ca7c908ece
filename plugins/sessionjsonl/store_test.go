package sessionjsonl_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"dsh/kernel/session"
	"dsh/kernel/session/sessiontest"
	"dsh/plugins/sessionjsonl"
)

func TestContract(t *testing.T) {
	sessiontest.TestStore(t, func(t *testing.T) session.Store {
		home := t.TempDir()
		return sessionjsonl.NewStore(filepath.Join(home, "sessions.d"), filepath.Join(home, "spill"), slog.New(slog.DiscardHandler))
	})
}
