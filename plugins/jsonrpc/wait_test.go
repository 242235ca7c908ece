package jsonrpc_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dsh/kernel/profile"
	"dsh/kernel/session"
	"dsh/plugins/jsonrpc"
	"dsh/plugins/sessionjsonl"
	"dsh/profiles"
	"dsh/sdkproto"
)

// Spec jsonrpc 13.3, decision D23.
func TestWait(t *testing.T) {
	wait := func(message, more string) string {
		return `{"id":"w","method":"session/wait","params":{"sessionId":"s","messageId":"` + message + `"` + more + `}}`
	}
	const unfinished = `{"jsonrpc":"2.0","id":"w","result":{"finished":false}}`
	hanging := func(t *testing.T) (c *composed, id string) {
		c, _ = perform(t, composition{})
		c.greet("")
		c.tell(prompt("1", "s", "hang"))
		var streaming bool
		for id == "" || !streaming {
			l := c.next()
			streaming = streaming || strings.Contains(l, "text-delta")
			if strings.HasPrefix(l, `{"jsonrpc":"2.0","id":1,`) {
				id = messageID(t, l)
			}
		}
		return c, id
	}
	t.Run("unknown", func(t *testing.T) {
		c, _ := perform(t, composition{})
		c.greet("")
		c.tell(wait("m", ""))
		if a, _ := c.answer(`"w"`); !strings.Contains(a, "no such session") {
			t.Errorf("got %s", a)
		}
		c.said("s", "x")
		c.tell(wait("m", ""))
		if a, _ := c.answer(`"w"`); a != failed(`"w"`, -32602, `"session/wait messageId: session \"s\" has no user message \"m\""`) {
			t.Errorf("got %s", a)
		}
	})
	t.Run("time over", func(t *testing.T) {
		c, id := hanging(t)
		c.tell(wait(id, `,"timeoutMs":5`))
		if a, _ := c.answer(`"w"`); a != unfinished {
			t.Errorf("got %s", a)
		}
	})
	aborted := func(kind string) string {
		return `"turn":1,"reason":{"kind":"aborted","reason":{"kind":"` + kind + `"}},"finalText":"hang"}`
	}
	t.Run("until the end of the turn", func(t *testing.T) {
		c, id := hanging(t)
		c.tell(wait(id, `,"timeoutMs":9007199254740991`), `{"id":"c","method":"session/cancel","params":{"sessionId":"s"}}`)
		if a, _ := c.answer(`"w"`); !strings.Contains(a, `"finished":true,"sessionId":"s","messageId":"`+id+`",`+aborted("user")) {
			t.Errorf("got %s", a)
		}
	})
	t.Run("until shutdown", func(t *testing.T) {
		c, id := hanging(t)
		c.tell(wait(id, ""), `{"id":"p","method":"ping"}`)
		c.answer(`"p"`)
		c.tell(shutdown)
		all := strings.Join(c.until(`"id":"stop"`), "\n")
		if code := c.kernel.WaitExit(t); code != 0 {
			t.Errorf("exit %d", code)
		}
		if all += strings.Join(c.left(), "\n"); !strings.Contains(all, `"id":"w","result":{"finished":true,`) || !strings.Contains(all, aborted("disposed")) {
			t.Errorf("got %s", all)
		}
	})
	t.Run("until the end of input", func(t *testing.T) {
		c, id := hanging(t)
		c.tell(wait(id, ""))
		c.kernel.In.Close()
		if code := c.kernel.WaitExit(t); code != 0 {
			t.Errorf("exit %d", code)
		}
		if all := strings.Join(c.left(), "\n"); !strings.Contains(all, unfinished) {
			t.Errorf("got %s", all)
		}
	})
}

// What an earlier process has queued, and this one never heard of, is finished
// too when it is dropped.
func TestCancelOfWhatWasQueuedBefore(t *testing.T) {
	home := t.TempDir()
	store := sessionjsonl.NewStore(filepath.Join(home, "sessions.d"), filepath.Join(home, "spill"), nil)
	h := session.Header{ID: "s", CWD: "/w", CreatedAt: 1}
	w, err := store.Create(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	log := session.NewLog(h, w, 0, 0)
	for i, id := range []string{"old-1", "old-2"} {
		m := sdkproto.Message{Content: []sdkproto.Block{sdkproto.Text("x")}, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Role: sdkproto.RoleUser, ID: id}
		if _, err := log.Append(session.Draft{Type: sdkproto.TypeAgentInboxSpliced, Data: &sdkproto.AgentInboxSpliced{
			Target: sdkproto.TargetNextTurn, Start: i, Inserted: []sdkproto.Message{m},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	c, _ := perform(t, composition{home: home})
	c.greet(`,"capabilities":{"notifications":["session.prompt.finished"]}`)
	if a := c.ask("session/resume", `{"sessionId":"s"}`); !strings.Contains(a, `"lastSeq":2,"status":"idle"`) {
		t.Fatal(a)
	}
	c.tell(`{"id":"w","method":"session/wait","params":{"sessionId":"s","messageId":"old-2"}}`)
	c.tell(`{"id":"c","method":"session/cancel","params":{"sessionId":"s","messageId":"old-2"}}`)
	all := strings.Join(c.until(`"session.prompt.finished"`), "\n")
	for !strings.Contains(all, `"id":"w"`) || !strings.Contains(all, `"id":"c"`) {
		all += "\n" + c.next()
	}
	for _, want := range []string{
		`{"jsonrpc":"2.0","id":"w","result":{"finished":true,"sessionId":"s","messageId":"old-2","reason":{"kind":"canceled"},"finalText":""}}`,
		`{"jsonrpc":"2.0","method":"session.prompt.finished","params":{"sessionId":"s","messageId":"old-2","reason":{"kind":"canceled"},"finalText":""}}`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not in %s", want, all)
		}
	}
	all = strings.Join(c.said("s", "new"), "\n")
	if !strings.Contains(all, `"messageId":"old-1","turn":1,"reason":{"kind":"completed"},"finalText":"x",`) || !strings.Contains(all, `"turn":2,"reason":{"kind":"completed"},"finalText":"new"`) {
		t.Errorf("got %s", all)
	}
}

// Spec jsonrpc 13.3: the heartbeat comes when it was asked for, goes with the
// next handshake, and is outside every session.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, setup{})
		defer p.stop()
		ask := func(capabilities string) {
			p.send(strings.Replace(initialize, `"model":"m"`, `"model":"m","capabilities":`+capabilities, 1))
			if got := p.next(); got != initialized {
				t.Fatalf("got %s", got)
			}
		}
		count := func(d time.Duration) (n int) {
			time.Sleep(d)
			synctest.Wait()
			for len(p.lines) > 0 {
				if l := <-p.lines; !strings.HasPrefix(l, `{"jsonrpc":"2.0","method":"runtime.heartbeat","params":{"time":`) || strings.Contains(l, "sessionId") {
					t.Errorf("got %s", l)
				}
				n++
			}
			return n
		}
		p.begin()
		if n := count(time.Hour); n != 0 {
			t.Errorf("%d unasked", n)
		}
		ask(`{"heartbeatSeconds":2}`)
		if n := count(21 * time.Second); n != 10 {
			t.Errorf("%d in 21 s", n)
		}
		ask(`{"notifications":["runtime.heartbeat"]}`)
		if n := count(46 * time.Second); n != 3 {
			t.Errorf("%d in 46 s", n)
		}
		ask(`{}`)
		if n := count(time.Hour); n != 0 {
			t.Errorf("%d after it was called off", n)
		}
		ask(`{"heartbeatSeconds":1}`)
		p.send(shutdown)
		if a, _ := p.answer(`"stop"`); a != stopped {
			t.Errorf("got %s", a)
		}
		if n := count(time.Hour); n != 0 {
			t.Errorf("%d behind the answer to shutdown", n)
		}
	})
}

// S110, spec jsonrpc 4.4: false by default; the variable sets it in the profile
// for clients.
func TestMaxTokensAsSuccess(t *testing.T) {
	for _, tt := range []struct {
		value string // of the variable, "" for none
		want  bool
	}{{"", false}, {"true", true}, {"false", false}} {
		p, err := profile.Load(profile.Options{Name: "sdk", Embedded: profiles.FS, Home: t.TempDir(), Env: func(name string) (string, bool) {
			if name != "DSH_MAX_TOKENS_AS_SUCCESS" {
				return "", false
			}
			return tt.value, tt.value != ""
		}})
		if err != nil {
			t.Fatal(err)
		}
		row, ok := p.Entry("rpc")
		if !ok {
			t.Fatal("profile sdk has no row rpc")
		}
		config := jsonrpc.Plugin.Defaults().(*jsonrpc.Config)
		if errs := row.Decode(config); len(errs) > 0 {
			t.Fatal(errs)
		}
		if config.MaxTokensAsSuccess != tt.want {
			t.Errorf("%q: got %v", tt.value, config.MaxTokensAsSuccess)
		}
	}
}
