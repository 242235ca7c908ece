package main

import (
	"strings"
	"testing"
)

// The help of the command line names the slash commands that every session has, and
// no others.
func TestHelpNamesCommands(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script("rules: [{reply: ok}]")
	h := r.start()
	h.prompt(1)
	_, said, found := strings.Cut(r.command("--help"), "is a command:")
	said, _, ends := strings.Cut(said, "are built in")
	if !found || !ends {
		t.Fatal("--help says nothing of slash commands")
	}
	commands, _ := h.of("system/init")[0]["slash_commands"].([]any)
	if len(commands) != strings.Count(said, "/") || len(commands) == 0 {
		t.Errorf("--help names %q, the session has %v", said, commands)
	}
	for _, c := range commands {
		if name, _ := c.(string); !strings.Contains(said, "/"+name) {
			t.Errorf("--help does not name /%s", name)
		}
	}
}
