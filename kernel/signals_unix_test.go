//go:build unix

package kernel_test

import (
	"bytes"
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/fx"

	"dsh/kernel"
)

func TestRunSignals(t *testing.T) {
	for name, tc := range map[string]struct {
		signals []syscall.Signal
		want    int
	}{
		"TERM":          {[]syscall.Signal{syscall.SIGTERM}, kernel.ExitOK},
		"HUP":           {[]syscall.Signal{syscall.SIGHUP}, kernel.ExitOK},
		"INT":           {[]syscall.Signal{syscall.SIGINT}, kernel.ExitInterrupted},
		"INT then TERM": {[]syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, kernel.ExitTerminated},
	} {
		t.Run(name, func(t *testing.T) {
			m := &marks{}
			first := make(chan struct{})
			slow := kernel.Define("slow", "Rests slowly.", func() nothing { return nothing{} },
				func(in kernel.Instance, _ nothing) fx.Option {
					return fx.Invoke(func() {
						in.Root.OnQuiesce(in.Owner, "slow", 300*time.Millisecond, func(ctx context.Context) error {
							m.add("rest")
							close(first)
							if len(tc.signals) > 1 {
								<-ctx.Done()
							}
							return nil
						})
					})
				})
			started := kernel.Define("started", "Says when it starts.", func() nothing { return nothing{} },
				func(in kernel.Instance, _ nothing) fx.Option {
					return fx.Invoke(func(lc fx.Lifecycle) {
						lc.Append(fx.StartHook(func() {
							in.Ready.Go("signal", false, func(context.Context) error {
								for slices.Contains(in.Ready.Pending(), "start of profile test") {
									time.Sleep(time.Millisecond)
								}
								return syscall.Kill(syscall.Getpid(), tc.signals[0])
							})
						}))
					})
				})
			if len(tc.signals) > 1 {
				go func() { <-first; _ = syscall.Kill(syscall.Getpid(), tc.signals[1]) }()
			}
			var stderr bytes.Buffer
			code := kernel.Run(context.Background(), "test", &stderr, kernel.Options{
				Plugins: []kernel.Plugin{slow, started, front()},
				Profile: load(t, "plugins:\n  a: {use: slow}\n  b: {use: started}\n  f: {use: front}\n"),
			})
			if code != tc.want || stderr.Len() > 0 {
				t.Errorf("got code %d, stderr %q; want %d", code, stderr.String(), tc.want)
			}
			if got := m.all(); !slices.Equal(got, []string{"rest"}) {
				t.Errorf("came to rest %d times", len(got))
			}
		})
	}
}
