package external

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/kernel/profile"
)

// A plugin's config is the row's without the harness's part, and its defaults
// stay where the row says nothing.
func TestConfig(t *testing.T) {
	for _, tc := range []struct{ name, config, want string }{
		{"default", "", "Hello you"},
		{"given", "greeting: Hi", "Hi you"},
		{"beside the harness's part", "greeting: Hi, host: {callTimeoutMs: 60000}", "Hi you"},
		{"the harness's part alone", "host: {restarts: 0}", "Hello you"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := up(t, "good", tc.config)
			if got := text(b.do(context.Background(), "greet", "you")); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			wantAll(t, b.log.String(), `msg="the plugin is ready" row=it name=good version=1.2.3 offers="tools, models, hooks, prompt, commands"`)
		})
	}
}

// A config that the plugin does not take is told with file and line, before the
// plugin serves (case B73).
func TestWrongConfig(t *testing.T) {
	for _, tc := range []struct {
		name, play, config string
		want               []string
	}{
		{"unknown key", "good", "greting: x", []string{"plugins.it.config.greting: unknown; known members: count, fail, greeting, refuse"}},
		{"wrong type", "good", "greeting: [1], count: many", []string{"plugins.it.config.greeting: ", "plugins.it.config.count: "}},
		{"the plugin's own check", "good", "count: 101", []string{"plugins.it.config.count: 101 is too many; use 100 or fewer", "plugins.it.config.greeting: is never right then"}},
		{"the plugin cannot start", "good", "fail: no network", []string{"plugins.it.config: no network"}},
		{"a plugin that takes none", "bare", "a: 1", []string{"plugins.it.config.a: unknown"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := boot(t, rowOf(t, "it", tc.play, tc.config))
			err := b.ready(t, "it")
			if err == nil {
				t.Fatal("it started")
			}
			wantAll(t, err.Error(), tc.want...)
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, b.file+":3: ") {
					t.Errorf("without file and line: %s", line)
				}
			}
		})
	}
}

// The line is that of the value.
func TestWrongConfigLine(t *testing.T) {
	b := boot(t, fmt.Sprintf("  it:\n    use: %q\n    config:\n      greeting: Hi\n      count: 101\n", executableNamed(t, "good")))
	err := b.ready(t, "it")
	if err == nil {
		t.Fatal("it started")
	}
	wantAll(t, err.Error(), b.file+":7: plugins.it.config.count: ", b.file+":6: plugins.it.config.greeting: ")
}

// A socket finds its place where the folder for temporary files has a long name.
func TestLongTemp(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	path := executableNamed(t, "tools")
	t.Setenv("TMPDIR", long)
	b := boot(t, fmt.Sprintf("  it: {use: %q}\n", path))
	if err := b.ready(t, "it"); err != nil {
		t.Error(err)
	}
}

// What an interpolation gave is no part of an error: it may be a secret.
func TestWrongConfigSecret(t *testing.T) {
	t.Setenv("PLUGIN_TEST_TOKEN", "sesame-open")
	b := boot(t, fmt.Sprintf("  it: {use: %s, config: {count: \"${env:PLUGIN_TEST_TOKEN}\"}}\n", executableNamed(t, "good")))
	err := b.ready(t, "it")
	if err == nil {
		t.Fatal("it started")
	}
	wantAll(t, err.Error(), "plugins.it.config.count")
	if all := err.Error() + b.log.String(); strings.Contains(all, "sesame-open") {
		t.Errorf("the secret is shown: %s", all)
	}
}

// Whatever goes wrong before the plugin is ready fails its row within the limit
// and says why (cases B69, B73).
func TestWrongStart(t *testing.T) {
	for _, tc := range []struct {
		play, config string
		want         []string
	}{
		{"quitting", "", []string{"it ended before its handshake (exit status 7)", "its last words: no licence found"}},
		{"silent", "host: {startTimeoutMs: 300}", []string{"it did not shake hands in time (not ready after 300ms)"}},
		{"flooding", "", []string{`it prints to standard output before its handshake, such as "loud loud`, "must print nothing there"}},
		{"endless", "", []string{"it prints to standard output before its handshake", "no end in sight"}},
		{"newer", "", []string{"it speaks version 9 of the plugin contract and this harness version 1; install a version of the plugin that speaks 1"}},
		{"older", "", []string{`its handshake line "1|1|tcp|127.0.0.1:1" has 4 fields instead of 5`}},
		{"netrpc", "", []string{`it wants to speak "netrpc"; only grpc is spoken`}},
		{"deaf", "", []string{"describe:", "the connection is lost"}},
	} {
		t.Run(tc.play, func(t *testing.T) {
			b := boot(t, rowOf(t, "it", tc.play, tc.config))
			err := b.ready(t, "it")
			if err == nil {
				t.Fatal("it started")
			}
			wantAll(t, err.Error(), append(tc.want, b.file+":3: plugins.it.use: plugin ")...)
			if len(err.Error()) > 8000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// A few lines before the handshake are skipped and logged with the row's name
// (case B69).
func TestNoiseBeforeHandshake(t *testing.T) {
	b := up(t, "noisy", "")
	if got := text(b.do(context.Background(), "greet", "you")); got != "Hello you" {
		t.Errorf("got %q", got)
	}
	wantAll(t, b.log.String(), `msg="Welcome to the plugin!" row=it from="standard output"`)
}

// What is wrong with a row before anything is started.
func TestWrongRow(t *testing.T) {
	path := executableNamed(t, "good")
	for _, tc := range []struct {
		name, row string
		want      string
	}{
		{"harness's part", "use: " + path + ", config: {host: {calTimeoutMs: 1}}", `plugins.it.config.host.calTimeoutMs: unknown key "calTimeoutMs"; did you mean "callTimeoutMs"?`},
		{"harness's limit", "use: " + path + ", config: {host: {callTimeoutMs: 0}}", "plugins.it.config.host.callTimeoutMs: 0 is too small; use 1 or more"},
		{"harness's word", "use: " + path + ", config: {host: {hookFailure: ignore}}", `plugins.it.config.host.hookFailure: "ignore" is not known; use refuse, pass`},
		{"variable", "use: " + path + ", config: {host: {env: [\"A=B\"]}}", `plugins.it.config.host.env: "A=B" is not the name of an environment variable`},
		{"checksum", "use: " + path + ", checksum: md5:123", `plugins.it.checksum: "md5:123" is not a checksum; write sha256: and 64 hex digits`},
		{"unknown name", "use: sems", `plugins.it.use: unknown plugin "sems"; did you mean "seams"?`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			home := t.TempDir()
			p, file := load(t, home, "  it: {"+tc.row+"}\n")
			opts := kernel.Options{Plugins: []kernel.Plugin{newSeams().plugin()}, External: New(filepath.Join(home, "plugins")), Profile: p}
			err := opts.Check()
			if err == nil {
				t.Fatal("nothing is wrong with it")
			}
			wantAll(t, err.Error(), file+":3: ", tc.want)
		})
	}
	t.Run("relative path without a file", func(t *testing.T) {
		_, err := New("/plugins")(profile.Entry{ID: "it", Use: "bin/jira"})
		if err == nil || !strings.Contains(err.Error(), `plugins.it.use: "bin/jira" is a relative path, and there is no file whose folder it could start at; give an absolute path, or put the executable into /plugins`) {
			t.Errorf("got %v", err)
		}
	})
}

// A plugin is found by an absolute path, by one that starts at the profile's
// folder, and by its name in $DSH_HOME/plugins.
func TestFind(t *testing.T) {
	home := t.TempDir()
	self := executableNamed(t, "tools")
	for _, dir := range []string{"plugins", "bin"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(self, filepath.Join(home, dir, "tools")); err != nil {
			t.Fatal(err)
		}
	}
	for _, use := range []string{self, "bin/tools", "./bin/tools", "tools"} {
		t.Run(use, func(t *testing.T) {
			p, _ := load(t, home, "  it: {use: "+use+", required: true}\n")
			s := newSeams()
			k, err := kernel.Compose(context.Background(), kernel.Options{
				Plugins: []kernel.Plugin{s.plugin()}, External: New(filepath.Join(home, "plugins")), Profile: p, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := k.Stop(); err != nil {
					t.Error(err)
				}
			}()
			if err := k.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := k.Ready().Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, ok := s.tools.View(nil).Lookup("do"); !ok {
				t.Error("its tool is not there")
			}
		})
	}
}

// A file with another checksum is not started.
func TestChecksum(t *testing.T) {
	path := executableNamed(t, "tools")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	t.Run("same", func(t *testing.T) {
		b := boot(t, fmt.Sprintf("  it: {use: %s, checksum: %q}\n", path, strings.ToUpper(sum[:7])+sum[7:]))
		if err := b.ready(t, "it"); err != nil {
			t.Error(err)
		}
	})
	t.Run("other", func(t *testing.T) {
		b := boot(t, fmt.Sprintf("  it: {use: %s, checksum: %q}\n", path, "sha256:"+strings.Repeat("0", 64)))
		err := b.ready(t, "it")
		if err == nil {
			t.Fatal("it started")
		}
		wantAll(t, err.Error(), b.file+":3: plugins.it.use: ", path+" is not the pinned file: its checksum is "+sum)
	})
}

// Five plugins, four of them broken: the good one works, and each failure is told
// once, with its place (case B73).
func TestBrokenBesideGood(t *testing.T) {
	rows := "  missing: {use: /no/such/file}\n" +
		rowOf(t, "config", "good", "count: 1000") +
		rowOf(t, "first", "tools", "greeting: First") +
		rowOf(t, "second", "tools", "") +
		rowOf(t, "start", "quitting", "")
	b := boot(t, rows)
	// Which of the two that share a name comes first is not said; the other fails.
	firstErr, secondErr := b.ready(t, "first"), b.ready(t, "second")
	if (firstErr == nil) == (secondErr == nil) {
		t.Fatalf("first: %v; second: %v", firstErr, secondErr)
	}
	clash := firstErr
	if clash == nil {
		clash = secondErr
	}
	wantAll(t, clash.Error(), `register tool "do": the name is taken`, b.file)
	for id, want := range map[string]string{
		"missing": b.file + ":3: plugins.missing.use: plugin /no/such/file: there is no file /no/such/file",
		"config":  b.file + ":4: plugins.config.config.count: 1000 is too many",
		"start":   b.file + ":7: plugins.start.use: ",
	} {
		err := b.ready(t, id)
		if err == nil {
			t.Errorf("%s started", id)
			continue
		}
		wantAll(t, err.Error(), want)
		if n := strings.Count(b.log.String(), `msg="a load task failed" task="plugin `+id+`"`); n != 1 {
			t.Errorf("the failure of %s is told %d times", id, n)
		}
	}
	if got := text(b.do(context.Background(), "greet", "you")); !strings.HasSuffix(got, " you") {
		t.Errorf("the good tool said %q", got)
	}
	if err := b.kernel.Ready().Wait(t.Context()); err != nil {
		t.Errorf("rows that are not required keep the rest from starting: %v", err)
	}
}

// A required row that fails fails the start with the same text (case B73).
func TestRequired(t *testing.T) {
	b := boot(t, "  it: {use: /no/such/file, required: true}\n")
	err := b.kernel.Ready().Wait(t.Context())
	if err == nil {
		t.Fatal("the barrier opened")
	}
	wantAll(t, err.Error(), "load task plugin it: ", b.file+":3: plugins.it.use: plugin /no/such/file: there is no file")
}

// A composition that is only checked or composed starts no programs.
func TestComposeStartsNothing(t *testing.T) {
	home := t.TempDir()
	mark := filepath.Join(home, "started")
	script := filepath.Join(home, "mark")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho yes > "+mark+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, _ := load(t, home, "  it: {use: ./mark, required: true}\n")
	k, err := kernel.Compose(context.Background(), kernel.Options{Plugins: []kernel.Plugin{newSeams().plugin()}, External: New(""), Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program was started")
	}
}

// What a plugin offers without a place for it is an error that says what to do.
func TestNoPlace(t *testing.T) {
	home := t.TempDir()
	p, _ := load(t, home, rowOf(t, "it", "tools", ""))
	p.Entries = p.Entries[1:] // no registries
	k, err := kernel.Compose(context.Background(), kernel.Options{External: New(""), Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := k.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	_ = k.Ready().Wait(t.Context())
	b := booted{kernel: k}
	err = b.ready(t, "it")
	if err == nil {
		t.Fatal("it started")
	}
	wantAll(t, err.Error(), "the plugin offers tools, and no row of the profile provides *tool.Registry; enable the row core")
}
