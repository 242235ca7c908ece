//go:build unix

package toollsp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFind: a configured server goes ahead of those that are found, and takes the
// file types of its kind.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"gopls", "mine", "pylsp", "pyright-langserver"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	c := defaults()
	c.Servers = map[string]Server{
		"typescript": {Command: "mine", Args: []string{"a"}},
		"late":       {Command: "mine", Extensions: []string{".GO", ".q"}, Language: "quick"},
	}
	for file, want := range map[string]string{
		"a.go":  "late mine [] go",
		"a.q":   "late mine [] quick",
		"a.tsx": "typescript mine [a] typescriptreact",
		"a.js":  "typescript mine [a] javascript",
		"a.PY":  "python pyright-langserver [--stdio] python",
	} {
		how, err := c.find("lsp", file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got := how.kind + " " + how.program + " [" + strings.Join(how.args, " ") + "] " + how.languageOf(file); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}
