package settings_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/kerneltest"
	contract "dsh/kernel/settings"
	"dsh/plugins/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a home, a workspace and the source over them.
type world struct {
	t        *testing.T
	home, ws string
	owner    *kernel.Owner
	log      kerneltest.Log
	*settings.Settings
}

func start(t *testing.T, change func(*settings.Config)) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, home: filepath.Join(root, "home"), ws: filepath.Join(root, "ws")}
	for _, dir := range []string{w.home, w.ws} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.owner = kernel.NewOwner(context.Background(), "test")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.owner.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	c := *settings.Plugin.Defaults().(*settings.Config)
	if change != nil {
		change(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	w.Settings, err = settings.New(settings.Params{
		Self:   kernel.Instance{Owner: w.owner, Home: w.home, Log: slog.New(slog.NewTextHandler(&w.log, nil))},
		Config: c,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// put writes a file below the folder of both home and ws.
func (w *world) put(name, text string) string {
	w.t.Helper()
	file := filepath.Join(filepath.Dir(w.home), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// The layers are always the same ones, low to high (spec stream-json 7.4), and
// keys keep their text (case B81).
func TestLayers(t *testing.T) {
	w := start(t, nil)
	type short struct {
		Scope, File, Root            string
		Exists, Trusted, ServersOnly bool
	}
	shape := func() (all []short) {
		for _, l := range w.For(w.ws) {
			if l.Err != nil {
				t.Error(l.Err)
			}
			all = append(all, short{l.Scope, l.File, l.Root, l.Exists, l.Trusted, l.ServersOnly})
		}
		return all
	}
	want := []short{
		{"user", filepath.Join(w.home, "settings.json"), w.home, false, true, false},
		{"project", filepath.Join(w.ws, ".mcp.json"), w.ws, false, false, true},
		{"project", filepath.Join(w.ws, ".dsh", "settings.json"), w.ws, false, false, false},
		{"local", filepath.Join(w.ws, ".dsh", "settings.local.json"), w.ws, false, false, false},
		{"flag", "", w.ws, false, true, false},
	}
	if diff := cmp.Diff(want, shape()); diff != "" {
		t.Errorf("without files (-want +got):\n%s", diff)
	}
	w.put("home/settings.json", `{"model":"m","permissions":{"allow":["Read"],"defaultMode":"plan"},"unknownKey":{"X":1}}`)
	w.put("ws/.mcp.json", `{"mcpServers":{"GitHub":{"command":"gh","env":{"GITHUB_TOKEN":"x","Path_X":"1"}},"github":{"type":"http","url":"https://x/","headers":{"X-Api-Key":"k"},"timeout":5}},"permissions":{"allow":["Bash"]}}`)
	w.put("ws/.dsh/settings.json", `{"permissions":{"ask":["Bash(git push:*)"],"additionalDirectories":["../x"]}}`)
	w.put("ws/.dsh/settings.local.json", `{"permissions":{"deny":["Bash(rm:*)"],"disableBypassPermissionsMode":"disable"}}`)
	for i := range want[:4] {
		want[i].Exists = true
	}
	if diff := cmp.Diff(want, shape()); diff != "" {
		t.Errorf("with files (-want +got):\n%s", diff)
	}
	layers := w.For(w.ws)
	got := []contract.Permissions{layers[0].Permissions, layers[1].Permissions, layers[2].Permissions, layers[3].Permissions}
	if diff := cmp.Diff([]contract.Permissions{
		{Allow: []string{"Read"}, DefaultMode: "plan"},
		{}, // a file of servers holds no rules
		{Ask: []string{"Bash(git push:*)"}, AdditionalDirectories: []string{"../x"}},
		{Deny: []string{"Bash(rm:*)"}, DisableBypassPermissionsMode: "disable"},
	}, got); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]contract.MCPServer{
		"GitHub": {Command: "gh", Env: map[string]string{"GITHUB_TOKEN": "x", "Path_X": "1"}},
		"github": {Type: "http", URL: "https://x/", Headers: map[string]string{"X-Api-Key": "k"}, TimeoutMs: 5},
	}, layers[1].MCPServers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	if want := `{"model":"m","permissions":{"allow":["Read"],"defaultMode":"plan"},"unknownKey":{"X":1}}`; string(layers[0].Raw) != want {
		t.Errorf("raw: %s", layers[0].Raw)
	}
	if w.log.String() != "" {
		t.Errorf("the log says %s", w.log.String())
	}
}

// Config names other folders, such as those of the stream-json profile, and
// leaves sources out.
func TestFolders(t *testing.T) {
	w := start(t, func(c *settings.Config) {
		c.UserFolders, c.ProjectFolders, c.MCPFile = []string{".", "../claude"}, []string{".claude", ".dsh"}, ""
		c.Sources = []string{"project"}
	})
	deny := `{"permissions":{"deny":["X"]}}`
	for _, name := range []string{"home/settings.json", "claude/settings.json", "ws/.claude/settings.json", "ws/.claude/settings.local.json", "ws/.dsh/settings.json"} {
		w.put(name, deny)
	}
	var got []string
	for _, l := range w.For(w.ws) {
		if l.File == "" {
			continue
		}
		rel, err := filepath.Rel(filepath.Dir(w.home), l.File)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join(append([]string{l.Scope, filepath.ToSlash(rel)}, l.Permissions.Deny...), " "))
	}
	if diff := cmp.Diff([]string{
		"user home/settings.json", "user claude/settings.json",
		"project ws/.claude/settings.json X", "project ws/.dsh/settings.json X",
		"local ws/.claude/settings.local.json", "local ws/.dsh/settings.local.json",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A home folder that is the workspace, too, does not make a project of the
// user's own file.
func TestHomeIsWorkspace(t *testing.T) {
	w := start(t, func(c *settings.Config) { c.UserFolders = []string{"../ws/.dsh"} })
	w.put("ws/.dsh/settings.json", `{"permissions":{"allow":["X"]}}`)
	layers := w.For(w.ws)
	if !layers[0].Exists || len(layers[0].Permissions.Allow) != 1 || layers[2].Exists {
		t.Errorf("got %+v", layers)
	}
}

// Case B82: a file that is there and cannot be used never counts as one without
// rules, and what is wrong has a place. Case B84: so do names that would lose
// rules.
func TestUnusable(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"cut off", `{"permissions":{"deny":["Bash"]}`, ":1:33: "},
		{"empty", "", ":1:1: the file is empty"},
		{"the wrong type", "{\n \"permissions\": {\"deny\": \"Bash\"}}", ":2:18: /permissions/deny: "},
		{"a wrong type in a list", `{"permissions":{"deny":["a",7]}}`, ":1:29: /permissions/deny/1: "},
		{"a server's wrong type", "{\n\"mcpServers\":{\"x\":{\"timeout\":\"5\"}}}", ":2:20: /mcpServers/x/timeout: "},
		{"the same key twice", `{"permissions":{"deny":["a"]},"permissions":{}}`, ":1:31: "},
		{"misspelled rules", `{"permissions":{"denny":["Bash"]}}`, `:1:17: unknown key "denny"; did you mean "deny"?`},
		{"misspelled permissions", `{"Permissions":{"deny":["Bash"]}}`, `:1:2: unknown key "Permissions"; did you mean "permissions"?`},
		{"misplaced rules", `{"deny":["Bash"]}`, `:1:2: "deny" belongs into the object "permissions"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t, nil)
			file := w.put("ws/.dsh/settings.json", tc.text)
			l := w.For(w.ws)[2]
			if !l.Exists || l.Err == nil || !strings.Contains(l.Err.Error(), file+tc.want) {
				t.Errorf("got %v, want %s%s", l.Err, file, tc.want)
			}
			if l.Raw != nil || l.MCPServers != nil || !cmp.Equal(l.Permissions, contract.Permissions{}) {
				t.Errorf("something of it is there: %+v", l)
			}
			if !strings.Contains(w.log.String(), "cannot be used") {
				t.Error("the log does not say so")
			}
		})
	}
	t.Run("a folder", func(t *testing.T) {
		w := start(t, nil)
		w.put("ws/.dsh/settings.json/x", "")
		if l := w.For(w.ws)[2]; !l.Exists || l.Err == nil || !strings.Contains(l.Err.Error(), "it is a directory") {
			t.Errorf("got %+v", l)
		}
	})
	t.Run("a link that leads nowhere", func(t *testing.T) {
		w := start(t, nil)
		if err := os.Symlink("gone", filepath.Join(w.home, "settings.json")); err != nil {
			t.Fatal(err)
		}
		if l := w.For(w.ws)[0]; !l.Exists || l.Err == nil || !strings.Contains(l.Err.Error(), "leads nowhere") {
			t.Errorf("got %+v", l)
		}
	})
	t.Run("a folder that is a file", func(t *testing.T) {
		w := start(t, nil)
		w.put("ws/.dsh", "")
		if l := w.For(w.ws)[2]; l.Exists || l.Err != nil {
			t.Errorf("got %+v", l)
		}
	})
}

// Case B84: near misses are named, with their place; other unknown keys are the
// business of other programs.
func TestNearMisses(t *testing.T) {
	w := start(t, nil)
	file := w.put("home/settings.json", "{\n \"modle\": \"m\",\n \"defaultMode\": \"plan\",\n \"permissions\": {\"defaultMod\": \"plan\"},\n"+
		" \"mcpServers\": {\"x\": {\"comand\": \"y\"}}, \"statusLine\": {}, \"somethingElse\": 1}")
	if l := w.For(w.ws)[0]; l.Err != nil {
		t.Fatal(l.Err)
	}
	for _, want := range []string{
		file + `:2:2" key=modle`, file + `:3:2" key=defaultMode hint="it belongs into`, file + `:4:18" key=defaultMod `, file + `:5:23" key=comand`,
	} {
		want = strings.ReplaceAll(want, `" key`, " key")
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("%s is not in\n%s", want, w.log.String())
		}
	}
	if n := strings.Count(w.log.String(), "\n"); n != 4 {
		t.Errorf("%d lines:\n%s", n, w.log.String())
	}
	before := w.log.String()
	time.Sleep(150 * time.Millisecond) // the file's time is old enough to be trusted
	w.For(w.ws)
	first := w.log.String()
	w.For(w.ws)
	if w.log.String() != first || len(first) > 2*len(before) {
		t.Error("it is said again and again")
	}
}

func TestTrust(t *testing.T) {
	trusted := func(w *world, cwd string) [2]bool {
		layers := w.For(cwd)
		return [2]bool{layers[0].Trusted, layers[1].Trusted && layers[2].Trusted && layers[3].Trusted}
	}
	for mode, want := range map[string]bool{"always": true, "never": false} {
		w := start(t, func(c *settings.Config) { c.Trust = mode })
		w.put("home/trust.json", `{"folders":["/"]}`)
		if got := trusted(w, w.ws); got != [2]bool{true, want} {
			t.Errorf("%s: got %v", mode, got)
		}
	}
	w := start(t, nil)
	ctx := context.Background()
	sub, link := filepath.Join(w.ws, "sub"), filepath.Join(w.home, "link")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.ws+"-other", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.ws, link); err != nil {
		t.Fatal(err)
	}
	check := func(when string, want map[string]bool) {
		t.Helper()
		for cwd, want := range want {
			if got := trusted(w, cwd); got != [2]bool{true, want} {
				t.Errorf("%s: %s: got %v, want %v", when, cwd, got, want)
			}
		}
	}
	check("at first", map[string]bool{w.ws: false, sub: false, link: false})
	for i, want := range []bool{true, false} {
		real, added, err := settings.Trust(ctx, w.home, link)
		if err != nil || real != w.ws || added != want {
			t.Errorf("%d: %s, %v, %v", i, real, added, err)
		}
	}
	if info, err := os.Stat(settings.TrustFile(w.home)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	check("trusted", map[string]bool{w.ws: true, sub: true, link: true, filepath.Dir(w.ws): false, w.ws + "-other": false, w.home: false})
	// A link inside a trusted folder does not carry trust out of it.
	out := filepath.Join(w.ws, "out")
	if err := os.Symlink(w.ws+"-other", out); err != nil {
		t.Fatal(err)
	}
	check("a link out", map[string]bool{out: false})
	if _, _, err := settings.Trust(ctx, w.home, filepath.Join(w.ws, "gone")); err == nil {
		t.Error("a folder that is not there is trusted")
	}
	for i, want := range []bool{true, false} {
		if removed, err := settings.Distrust(ctx, w.home, w.ws); removed != want || err != nil {
			t.Errorf("%d: %v, %v", i, removed, err)
		}
	}
	check("not any more", map[string]bool{w.ws: false})
	w.put("home/trust.json", `{"folders":"`+w.ws+`"}`)
	check("a list that cannot be read", map[string]bool{w.ws: false})
	if !strings.Contains(w.log.String(), "trust.json:1:2: /folders") {
		t.Errorf("the log says %s", w.log.String())
	}
	if _, err := settings.Trusted(w.home); err == nil {
		t.Error("a list that cannot be read is listed")
	}
}

// A file is read anew when it has changed, and only then.
func TestChanges(t *testing.T) {
	w := start(t, nil)
	deny := func() string {
		l := w.For(w.ws)[2]
		if l.Err != nil {
			return "error"
		}
		return strings.Join(l.Permissions.Deny, ",")
	}
	for _, step := range []struct{ text, want string }{
		{`{"permissions":{"deny":["A"]}}`, "A"}, {`{"permissions":{"deny":["B"]}}`, "B"}, {`{`, "error"}, {`{"permissions":{"deny":["C"]}}`, "C"},
	} {
		w.put("ws/.dsh/settings.json", step.text)
		if got := deny(); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
	if err := os.Remove(filepath.Join(w.ws, ".dsh", "settings.json")); err != nil {
		t.Fatal(err)
	}
	if got := deny(); got != "" {
		t.Errorf("got %s", got)
	}
}

func TestWatch(t *testing.T) {
	w := start(t, nil)
	w.For(w.ws)
	one, two := make(chan struct{}, 100), make(chan struct{}, 100)
	first, second := w.owner.Child("first"), w.owner.Child("second")
	for owner, c := range map[*kernel.Owner]chan struct{}{first: one, second: two} {
		if err := w.Watch(owner, func() { c <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(c chan struct{}, what string) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: nobody said so", what)
		}
	}
	both := func(what string) { t.Helper(); wait(one, what); wait(two, what) }
	w.put("home/settings.json", `{}`)
	both("a new file")
	w.put("ws/.dsh/settings.json", `{}`)
	both("a new folder with a file")
	w.put("ws/.dsh/settings.json", `{"model":"x"}`)
	both("another text")
	other := filepath.Join(filepath.Dir(w.home), "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	w.For(other)
	w.put("other/.mcp.json", `{}`)
	both("a folder asked for later")
	if _, _, err := settings.Trust(context.Background(), w.home, w.ws); err != nil {
		t.Fatal(err)
	}
	both("trust")
	if err := os.Remove(filepath.Join(w.ws, ".dsh", "settings.json")); err != nil {
		t.Fatal(err)
	}
	both("a file that goes")
	if err := first.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.put("home/settings.json", `{"model":"y"}`)
	wait(two, "the one that is left")
	if len(one) > 0 {
		t.Error("one that has left is called")
	}
	if err := second.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	// When nobody watches, nothing runs.
	for deadline := time.Now().Add(10 * time.Second); slices.Contains(w.owner.Pending(), "watch settings"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", w.owner.Pending())
		}
	}
	third := w.owner.Child("third")
	if err := w.Watch(third, func() { one <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	w.put("home/settings.json", `{"model":"z"}`)
	wait(one, "a watch that begins again")
	if err := w.Watch(second, func() {}); err == nil {
		t.Error("a closed owner watches")
	}
}

// A folder of settings that is not there yet is seen when it comes.
func TestWatchFolderToCome(t *testing.T) {
	w := start(t, func(c *settings.Config) { c.MCPFile, c.UserFolders = "", []string{"../later"} })
	w.For(w.ws)
	changed := make(chan struct{}, 100)
	if err := w.Watch(w.owner, func() { changed <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ws/.dsh/settings.json", "later/settings.json"} {
		time.Sleep(200 * time.Millisecond) // the watch has begun
		w.put(name, `{}`)
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: nobody said so", name)
		}
	}
}

func TestServers(t *testing.T) {
	w := start(t, nil)
	ctx := context.Background()
	w.put("home/settings.json", "{\n  // mine\n  \"other\": 1\n}\n")
	user, project := w.For(w.ws)[0], w.For(w.ws)[1]
	for _, l := range []contract.Layer{user, project} {
		if err := settings.AddServer(ctx, l, "GitHub", contract.MCPServer{Type: "stdio", Command: "gh", Args: []string{"-x"}}); err != nil {
			t.Fatal(err)
		}
		if err := settings.AddServer(ctx, l, "GitHub", contract.MCPServer{Command: "y"}); err == nil || !strings.Contains(err.Error(), l.File) {
			t.Errorf("a second one: %v", err)
		}
	}
	for i, l := range w.For(w.ws)[:2] {
		if l.Err != nil || l.MCPServers["GitHub"].Command != "gh" {
			t.Errorf("layer %d: %+v", i, l)
		}
	}
	text, err := os.ReadFile(user.File)
	if err != nil || !strings.HasPrefix(string(text), "{\n  // mine\n  \"other\": 1,\n") {
		t.Errorf("%v: %s", err, text)
	}
	for i, want := range []bool{true, false} {
		if removed, err := settings.RemoveServer(ctx, w.For(w.ws)[0], "GitHub"); removed != want || err != nil {
			t.Errorf("%d: %v, %v", i, removed, err)
		}
	}
	if removed, err := settings.RemoveServer(ctx, w.For(w.ws)[3], "GitHub"); removed || err != nil {
		t.Errorf("without a file: %v, %v", removed, err)
	}
}

func TestConfig(t *testing.T) {
	c := *settings.Plugin.Defaults().(*settings.Config)
	c.Sources, c.UserFolders, c.ProjectFolders, c.MCPFile, c.Trust = []string{"users"}, []string{""}, []string{"../x"}, "/x", "maybe"
	err := c.Validate()
	for _, want := range []string{`"users" is no source`, "must not be empty", `"../x" is no folder`, `"/x" is no file`, `"maybe" is no rule`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}
