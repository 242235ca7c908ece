//go:build unix

package kernel_test

import (
	"bytes"
	"context"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/fx"

	"dsh/kernel"
)

// A front end may take signals upon itself: one that ends nothing leaves the
// process as it is, and one that ends it is cut short by the next.
func TestOnSignal(t *testing.T) {
	for name, tc := range map[string]struct {
		signals []syscall.Signal
		exits   bool
		want    int
		heard   int
	}{
		"taken, then ended by the front end": {[]syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, true, 7, 2},
		"an end that does not come":          {[]syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, false, kernel.ExitTerminated, 1},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan os.Signal, 4)
			var all []os.Signal // of the goroutine that runs the test, as Run is
			takes := kernel.Define("takes", "Takes signals.", func() nothing { return nothing{} },
				func(in kernel.Instance, _ nothing) fx.Option {
					return fx.Invoke(func() {
						in.Root.OnSignal(in.Owner, func(s os.Signal) (takes, ends bool) {
							all = append(all, s)
							heard <- s
							if s == os.Interrupt {
								return true, false
							}
							if tc.exits {
								in.Root.Exit(7)
							}
							return true, true
						})
						in.Owner.Go("signals", func(ctx context.Context) {
							for slices.Contains(in.Ready.Pending(), "start of profile test") {
								time.Sleep(time.Millisecond)
							}
							for _, s := range tc.signals {
								_ = syscall.Kill(syscall.Getpid(), s)
								select {
								case <-heard:
								case <-ctx.Done():
								case <-time.After(100 * time.Millisecond):
								}
							}
						})
					})
				})
			var stderr bytes.Buffer
			code := kernel.Run(context.Background(), "test", &stderr, kernel.Options{
				Plugins: []kernel.Plugin{takes, front()}, Profile: load(t, "plugins:\n  a: {use: takes}\n  f: {use: front}\n"),
			})
			if code != tc.want || stderr.Len() > 0 {
				t.Errorf("got code %d, stderr %q; want %d", code, stderr.String(), tc.want)
			}
			if tc.exits && len(all) != tc.heard {
				t.Errorf("heard %v", all)
			}
		})
	}
}
