//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewPlugin writes a plugin as somebody who follows the steps that the
// command prints: its own test passes, and it keeps to the contract.
func TestNewPlugin(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), filepath.Join(t.TempDir(), "my-greeter")
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out, _ := runDsh(t, home, 0, "plugin", "new", "my-greeter", "--dir", dir, "--source", source)
	for _, want := range []string{"wrote " + dir, "go mod tidy", "dsh plugin check ./my-greeter"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	// What `go mod tidy` does with a network.
	t.Run("builds", func(t *testing.T) {
		goTool(t, dir, "build", "-mod=mod", "-o", dir, ".")
		goTool(t, dir, "test", "-mod=mod", ".")
	})
	if gofmt, err := exec.CommandContext(t.Context(), "gofmt", "-l", dir).CombinedOutput(); err != nil || len(gofmt) > 0 {
		t.Errorf("gofmt: %v %s", err, gofmt)
	}
	out, _ = runDsh(t, home, 0, "plugin", "check", filepath.Join(dir, "my-greeter"), "--call", `my_greeter={"name":"Ann"}`)
	if !strings.Contains(out, "ok    tools: good calls") {
		t.Errorf("dsh plugin check:\n%s", out)
	}

	// Nothing is written over.
	before, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, said := runDsh(t, home, 1, "plugin", "new", "other", "--dir", dir, "--source", source)
	after, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil || string(before) != string(after) || !strings.Contains(said, "nothing is written over") {
		t.Errorf("a folder that holds something: %s %v", said, err)
	}
}

func TestWithRow(t *testing.T) {
	sum := "sha256:" + strings.Repeat("a", 64)
	old := "sha256:" + strings.Repeat("b", 64)
	row := "echo: {use: echo, checksum: \"" + sum + "\"}"
	for name, c := range map[string]struct{ text, want string }{
		"no file":             {"", "plugins:\n  " + row + "\n"},
		"no plugins":          {"settings: {logLevel: debug}", "settings: {logLevel: debug}\nplugins:\n  " + row + "\n"},
		"rows":                {"plugins: # mine\n    # first\n    a: {use: x}\n", "plugins: # mine\n    " + row + "\n    # first\n    a: {use: x}\n"},
		"no rows":             {"plugins:\nsettings: {}\n", "plugins:\n  " + row + "\nsettings: {}\n"},
		"an older program":    {"plugins:\n  echo: {config: {repeat: 2}, checksum: " + old + ", use: echo} # it\n", "plugins:\n  echo: {config: {repeat: 2}, checksum: " + sum + ", use: echo} # it\n"},
		"a row on more lines": {"plugins:\n  echo:\n    use: echo\n", ""},
		"a short checksum":    {"plugins:\n  echo: {use: echo, checksum: sha256:1}\n", ""},
		"rows in flow style":  {"plugins: {a: {use: x}}\n", ""},
		"Windows line ends":   {"plugins:\r\n  a: {use: x}\r\n", "plugins:\r\n  " + row + "\n  a: {use: x}\r\n"},
		"an indented plugins": {"other:\n  plugins:\n", "other:\n  plugins:\nplugins:\n  " + row + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := withRow(c.text, "echo", sum, row)
			if got != c.want || ok != (c.want != "") {
				t.Errorf("got %q, %v; want %q", got, ok, c.want)
			}
		})
	}
}
