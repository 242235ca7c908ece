package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dsh/sdkproto"
	"dsh/sdkproto/client"
)

const beat = `{"jsonrpc":"2.0","method":"runtime.heartbeat","params":{"time":1}}`

// TestSilence: who waits for a server that has fallen silent fails with a clear
// error, in time; one that is only slow is waited for (spec jsonrpc 12.6, 13.3).
func TestSilence(t *testing.T) {
	const silence = 12 * time.Second
	synctest.Test(t, func(t *testing.T) {
		beats := make(chan int, 1)
		c, err := greeted(t, asks(), client.Limits{Silence: silence}, offered(sdkproto.NotifyHeartbeat), nil, func(p *peer, r request) bool {
			if r.Method == "quick" {
				p.answer(r, `{}`)
				return true
			}
			for range <-beats { // and then nothing
				time.Sleep(4 * time.Second)
				p.send(beat)
			}
			if r.Method == "slow" {
				p.answer(r, `{}`)
			} else {
				p.answer(r, `{"messageId":"M"}`)
				p.send(receipt("S", "M"), status("S", "running"))
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		beats <- 100
		if err := c.Call(t.Context(), "slow", nil, nil); err != nil {
			t.Errorf("a slow server with heartbeats: %v", err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all := c.Notifications(ctx)
		beats <- 2
		run, err := c.Session("S").Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err = run.Result(t.Context())
		if !errors.Is(err, client.ErrSilent) || !strings.Contains(err.Error(), "nothing came from it for 12s") {
			t.Errorf("run: %v", err)
		}
		if took := time.Since(begin); took < silence || took > silence*5/4 {
			t.Errorf("found silent after %s, want %s to a quarter more", took, silence)
		}
		if got, err := names(all); !errors.Is(err, client.ErrSilent) || len(got) != 4 {
			t.Errorf("notifications: %v, %v", got, err)
		}
		if err := c.Call(t.Context(), "nobody answers", nil, nil); !errors.Is(err, client.ErrSilent) {
			t.Errorf("a later call: %v", err)
		}
		close(beats)
		if err := c.Call(t.Context(), "quick", nil, nil); err != nil {
			t.Errorf("a server that is back: %v", err)
		}
	})
}

// TestSilenceEnds: what comes late is welcome, and a server without heartbeats
// while it shuts down is not silent.
func TestSilenceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(func(p *peer) {
			r, _ := p.next()
			p.answer(r, offered(sdkproto.NotifyHeartbeat))
			for {
				r, ok := p.next()
				if !ok || r.Method == sdkproto.MethodShutdown {
					time.Sleep(20 * time.Second)
					p.answer(r, `{}`)
					return
				}
				time.Sleep(10 * time.Second)
				p.answer(r, `{}`)
			}
		})
		limits := client.Limits{Silence: 4 * time.Second, Shutdown: time.Minute}
		c, err := client.Attach(t.Context(), w.Reader, w.WriteCloser, asks(), limits)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Call(t.Context(), "x", nil, nil); !errors.Is(err, client.ErrSilent) {
			t.Errorf("call: %v", err)
		}
		time.Sleep(5 * time.Second)
		begin := time.Now()
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(begin); took < 20*time.Second {
			t.Errorf("close took %s and did not wait for the server", took)
		}
		<-w.done
	})
}

// TestSilenceAsks: the watch asks for the heartbeats it needs, and for no more
// than that.
func TestSilenceAsks(t *testing.T) {
	with := func(seconds int) sdkproto.InitializeParams {
		p := asks("session.usage")
		p.Capabilities.HeartbeatSeconds = seconds
		return p
	}
	tests := []struct {
		name    string
		init    sdkproto.InitializeParams
		silence time.Duration
		welcome string
		frame   string // what is asked for
		err     string
	}{
		{"alone", sdkproto.InitializeParams{}, 30 * time.Second, offered(sdkproto.NotifyHeartbeat), `"protocolVersion":1,"capabilities":{"heartbeatSeconds":10}`, ""},
		{"beside others", with(0), 7 * time.Second, offered(sdkproto.NotifyHeartbeat), `"protocolVersion":1,"capabilities":{"notifications":["session.usage"],"heartbeatSeconds":2}`, ""},
		{"the caller's own", with(3), time.Minute, offered(sdkproto.NotifyHeartbeat), `"heartbeatSeconds":3}`, ""},
		{"the shortest", with(0), 2 * time.Second, offered(sdkproto.NotifyHeartbeat), `"heartbeatSeconds":1}`, ""},
		{"the longest", with(0), 24 * time.Hour, offered(sdkproto.NotifyHeartbeat), `"heartbeatSeconds":3600}`, ""},
		{"too short", with(0), time.Second, "", "", "a Limits.Silence of 1s is shorter than two heartbeats of 1s"},
		{"too short for the caller's own", with(3), 5 * time.Second, "", "", "shorter than two heartbeats of 3s"},
		{"not offered", with(0), time.Minute, offered("session.usage"), `"heartbeatSeconds":20}`, "runtime.heartbeat: server does not offer it"},
		{"a plain server", with(0), time.Minute, serverInfo, `"heartbeatSeconds":20}`, "says nothing of extensions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frames := make(chan string, 4)
			given := tt.init.Capabilities
			var before sdkproto.ClientCapabilities
			if given != nil {
				before = *given
			}
			_, err := greeted(t, tt.init, client.Limits{Silence: tt.silence}, tt.welcome, frames, nil)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("attach: %v, want %q", err, tt.err)
			}
			if got := <-frames; !strings.Contains(got, tt.frame) || tt.frame == "" && !strings.Contains(got, `"shutdown"`) {
				t.Errorf("sent %s, want %s", got, tt.frame)
			}
			if given != nil && given.HeartbeatSeconds != before.HeartbeatSeconds {
				t.Error("the caller's capabilities were changed")
			}
		})
	}
}
