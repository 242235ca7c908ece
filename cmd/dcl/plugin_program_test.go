package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dsh/sdkproto"
	"dsh/sdkproto/plugin"
)

// pluginProgram is the name of the plugin that TestMain makes of the test binary; its
// argument is part of the name of its only command.
const pluginProgram = "dcl-test-plugin"

func servePlugin() {
	plugin.Serve(plugin.Plugin{
		Name: "tested", Version: "1.0.0", Summary: "Has one command.",
		Commands: []plugin.Command{{
			Name: "from-" + os.Args[1], Description: "says so",
			Expand: func(context.Context, plugin.Use) ([]sdkproto.Block, error) {
				return []sdkproto.Block{sdkproto.Text("I am " + os.Args[1])}, nil
			},
		}},
	})
}

// reload_plugins starts a plugin's program anew when the file was replaced, and one that
// the profile names newly; what does not start leaves all of it as it was; what has not
// changed goes on (S054; spec stream-json 4.13).
func TestReloadPluginPrograms(t *testing.T) {
	t.Parallel()
	r := newRoom(t).script("rules: [{reply: done}]\n")
	program := filepath.Join(r.root, "program")
	replace := func(text string) {
		t.Helper()
		if err := os.WriteFile(program+".new", []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(program+".new", program); err != nil {
			t.Fatal(err)
		}
	}
	version := func(name string) string {
		return "#!/bin/sh\necho started >> " + r.root + "/starts\nexec " + pluginProgram + " " + name + "\n"
	}
	starts := func() int { return strings.Count(r.read(r.root+"/starts"), "started") }
	replace(version("one"))
	profile := filepath.Join(r.home, "profiles", "mine.yaml")
	rows := "extends: stream-json\nplugins:\n  mine: {use: " + program + "}\n"
	r.write(profile, rows)
	h := r.start("--profile", "mine")
	h.initialize(object{})
	n := 0
	reload := func(errors float64, want ...string) {
		t.Helper()
		n++
		response, _ := h.control(fmt.Sprint("r", n), "reload_plugins", nil)["response"].(object)
		if got := members(response["commands"], "name")[len(builtin):]; !slices.Equal(got, want) || response["error_count"] != errors {
			t.Errorf("reload %d: %v errors, commands %v; want %v, %v", n, response["error_count"], got, errors, want)
		}
	}
	reload(0, "from-one")
	if got := starts(); got != 1 {
		t.Errorf("an unchanged program was started %d times", got)
	}
	time.Sleep(10 * time.Millisecond) // another time of change, whatever the file system counts in
	replace("#!/bin/sh\nexit 3\n")
	reload(1, "from-one")
	h.prompt(1)
	replace(version("two"))
	reload(0, "from-two")
	r.write(profile, "extends: stream-json\nplugins: [")
	reload(1, "from-two")
	r.write(profile, rows+"  loop: {config: {maxSteps: 7}}\n")
	reload(1, "from-two")
	r.write(profile, "extends: stream-json\n")
	reload(0)
	r.write(profile, rows)
	reload(0, "from-two")
	h.prompt(2)
	h.end()
}
