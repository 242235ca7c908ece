package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestB81 has keys and texts in a profile that look like something else: they
// reach the provider, and the dump, as they were written (case B81).
func TestB81(t *testing.T) {
	const adapter = `, effort: off, headers: {X-Api-Version: 1.10, X-ID: 0123, X-Mode: off, X-Day: 2026-01-02},
    models: {deepseek-v4.1: {contextWindow: 1001}, org/model:tag: {contextWindow: 1002}, Org/Model:tag: {contextWindow: 1003}, 1.10: {contextWindow: 1004}},
    aliases: {short.name: org/model:tag, Short.Name: Org/Model:tag, off: deepseek-v4.1}`
	eachSpeech(t, settings{adapter: adapter}, func(t *testing.T, p *provided) {
		p.server.Script(says("yes"))
		for i, tc := range []struct {
			model, sent string
			window      int
		}{
			{"deepseek-v4.1", "deepseek-v4.1", 1001},
			{"org/model:tag", "org/model:tag", 1002},
			{"Org/Model:tag", "Org/Model:tag", 1003},
			{"1.10", "1.10", 1004},
			{"short.name", "org/model:tag", 1002},
			{"Short.Name", "Org/Model:tag", 1003},
			{"off", "deepseek-v4.1", 1001},
		} {
			id := fmt.Sprint("model", i)
			p.must(p.send(fmt.Appendf(nil, `{"id":%q,"method":"initialize","params":{"cwd":%s,"provider":%q,"model":%q}}`+"\n", id, show(p.ws), p.speech.provider, tc.model)))
			p.must(wantAnswer(p.peer, id, map[string]any{"result": map[string]any{}}))
			p.turn(id, "go")
			received := p.server.Received()
			last := received[len(received)-1]
			if !strings.Contains(string(last.Body), `"model":"`+tc.sent+`"`) {
				t.Errorf("model %s was asked for by %s", tc.model, last.Body)
			}
			if got := number(member(p.events(id, "request/context")[0], "data", "contextWindow")); got != int64(tc.window) {
				t.Errorf("model %s has a window of %d, want %d", tc.model, got, tc.window)
			}
			for name, want := range map[string]string{"X-Api-Version": "1.10", "X-ID": "0123", "X-Mode": "off", "X-Day": "2026-01-02"} {
				if got := last.Header.Get(name); got != want {
					t.Errorf("header %s came as %q, want %q", name, got, want)
				}
			}
			if off := strings.Contains(string(last.Body), `"disabled"`) || strings.Contains(string(last.Body), `"reasoning_effort":"off"`); !off {
				t.Errorf("effort off was sent as %s", last.Body)
			}
		}
		p.attempts()

		// The dump is a profile of the same meaning.
		dump := func(profile string) string {
			cmd := exec.Command("dsh", "--profile", profile, "--dump-config")
			cmd.Env = []string{"DSH_HOME=" + p.home}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return string(out)
		}
		first := dump(p.profile)
		for _, key := range []string{"deepseek-v4.1:", "org/model:tag:", "Org/Model:tag:", "short.name:", "Short.Name:", "X-ID:", "X-Api-Version:"} {
			if n := strings.Count(strings.ReplaceAll(first, `"`, ""), " "+key); n != 1 {
				t.Errorf("the key %s is %d times in\n%s", key, n, first)
			}
		}
		again := p.root + "/again.yaml"
		p.must(os.WriteFile(again, []byte(first), 0o600))
		if got, want := bare(dump(again)), bare(first); got != want {
			t.Errorf("the dump of the dump is\n%s\nwant\n%s", got, want)
		}
		p.end()
	})
}

// bare is a dump without the origins.
func bare(dump string) string {
	var b strings.Builder
	for line := range strings.Lines(dump) {
		value, _, _ := strings.Cut(strings.TrimRight(line, "\n"), " # ")
		if value = strings.TrimRight(value, " "); value != "" && !strings.HasPrefix(value, "#") {
			b.WriteString(value + "\n")
		}
	}
	return b.String()
}

// TestB82 writes a rule that takes a tool away in every form that a file can have,
// into the layer of a person and into a file that is named: either the rule holds,
// or the start fails and says which file, and where (case B82).
func TestB82(t *testing.T) {
	const rule = "plugins:\n  toolfilter: {config: {deny: [bash]}}\n"
	const mark = "\xef\xbb\xbf"
	utf16 := func(s string) string {
		out := "\xff\xfe"
		for _, c := range []byte(s) {
			out += string([]byte{c, 0})
		}
		return out
	}
	for name, tc := range map[string]struct {
		text  string
		holds bool
	}{
		"plain":             {rule, true},
		"mark":              {mark + rule, true},
		"CRLF":              {strings.ReplaceAll(rule, "\n", "\r\n"), true},
		"mark and CRLF":     {mark + strings.ReplaceAll(rule, "\n", "\r\n"), true},
		"comment":           {"# why\n" + rule + "# end", true},
		"trailing comma":    {"plugins: {toolfilter: {config: {deny: [bash,],},},}\n", true},
		"JSON":              {`{"plugins": {"toolfilter": {"config": {"deny": ["bash"]}}}}`, true},
		"UTF-16":            {utf16(rule), false},
		"slashes":           {"// why\n" + rule, false},
		"a comment of C":    {"/* why */\n" + rule, false},
		"slashes in JSON":   {"{\n\"plugins\": // why\n{\"toolfilter\": {\"config\": {\"deny\": [\"bash\"]}}}}", false},
		"empty":             {"", false},
		"only a comment":    {"# nothing\n", false},
		"cut off":           {"plugins: {toolfilter: {config: {deny: [bash", false},
		"tabs":              {"plugins:\n\ttoolfilter: {config: {deny: [bash]}}\n", false},
		"a list":            {"- toolfilter\n", false},
		"bytes, not UTF-8":  {"plugins:\n  toolfilter: {config: {deny: [\"\xff\"]}}\n", false},
		"misspelled":        {"plugins:\n  toolfilter: {config: {denied: [bash]}}\n", false},
		"of no known tool":  {"plugins:\n  toolfilter: {config: {deny: [bahs]}}\n", false},
		"two documents":     {rule + "---\n" + rule, false},
		"the key twice":     {rule + rule, false},
		"a folder (layer)":  {"\x00folder", false},
		"nothing but blank": {" \n\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := newPlace(t, "rules: [{reply: Yes.}]")
			layer, named := at.home+"/profile.yaml", at.root+"/named.yaml"
			for _, file := range []string{layer, named} {
				write := func() error { return os.WriteFile(file, []byte(tc.text), 0o600) }
				if tc.text == "\x00folder" {
					write = func() error { return os.Mkdir(file, 0o700) }
				}
				if err := write(); err != nil {
					t.Fatal(err)
				}
				args := []string{"--profile", "sdk"}
				if file == named {
					args = append(args, "--patch", named)
				}
				env := []string{"PATH=" + os.Getenv("PATH"), "DSH_HOME=" + at.home, "DSH_SCRIPT=" + at.model}
				p, err := startPeer("dsh", args, env, at.ws, at.root+"/stderr")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(p.abandon)
				if err := p.send(append(initializeFrame(at.ws, "scripted"), promptFrame("p", "s", "hello")...)); err != nil && tc.holds {
					t.Fatal(err)
				}
				if tc.holds {
					header := map[string]any{"params": map[string]any{"event": map[string]any{"type": "request/header"}}}
					if err := p.expect(header); err != nil {
						t.Fatal(err)
					}
				} else if err := p.closeInput(); err != nil {
					t.Fatal(err)
				}
				if err := p.in.Close(); err != nil && tc.holds {
					t.Fatal(err)
				}
				code, err := p.exitCode()
				if err != nil {
					t.Fatal(err)
				}
				said, err := os.ReadFile(p.stderr)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range p.lines() {
					if strings.Contains(string(e.line), `"name":"bash"`) {
						t.Errorf("%v: the rule was passed over: %.300s", args, e.line)
					}
				}
				switch answered := fmt.Sprint(len(p.lines())); {
				case tc.holds && code != 0, tc.holds && answered == "0":
					t.Errorf("%v: exit code %d, %s lines; standard error:\n%s", args, code, answered, said)
				case !tc.holds && code == 0 && !refusedPrompt(p):
					t.Errorf("%v: the process served; standard error:\n%s", args, said)
				case !tc.holds && code != 0 && !strings.Contains(string(said), file):
					t.Errorf("%v: standard error does not name %s:\n%s", args, file, said)
				}
				if err := os.RemoveAll(file); err != nil {
					t.Fatal(err)
				}
				_ = os.RemoveAll(at.home + "/sessions.d")
			}
		})
	}
}

// refusedPrompt reports that the prompt, or the handshake, was answered with an
// error.
func refusedPrompt(p *peer) bool {
	for _, e := range p.lines() {
		if member(e.value, "error") != nil {
			return true
		}
	}
	return false
}
