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
