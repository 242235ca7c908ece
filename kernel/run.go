package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Exit codes of a program built on the kernel (spec jsonrpc 1.7, decision D5).
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitInterrupted = 130
	// ExitTerminated is used when a second signal cuts the shutdown short, and by
	// front ends whose wire has it so; else the first SIGTERM ends with ExitOK.
	ExitTerminated = 143
)

// stopHooksLimit bounds fx's own stop hooks, which only tidy.
const stopHooksLimit = 500 * time.Millisecond

// Start runs the start hooks and lets the barrier open. After an error the
// kernel has been stopped.
func (k *Kernel) Start(ctx context.Context) error {
	defer k.opened()
	ctx, cancel := context.WithTimeout(ctx, k.opts.StartLimit)
	defer cancel()
	if err := k.hooks.during(ctx, k.app.Start); err != nil {
		return errors.Join(fmt.Errorf("start profile %s: %w", k.opts.Profile.Name, rootCause(err)), k.close())
	}
	return nil
}

// Root gives the life of the process.
func (k *Kernel) Root() *Root { return k.root }

// Ready gives the barrier of load tasks.
func (k *Kernel) Ready() *Ready { return k.ready }

// Wait returns the exit code after somebody asked for the end of the process,
// or ctx ended, and everything has been released. What was stuck is in err.
func (k *Kernel) Wait(ctx context.Context) (code int, err error) {
	select {
	case <-k.root.Exiting():
	case <-ctx.Done():
	}
	return k.root.Code(), k.Stop()
}

// Stop brings the process to rest and releases everything in reverse order,
// within the limits of decision R13. Calling it again waits for the first.
func (k *Kernel) Stop() error {
	rest, cancel := context.WithTimeout(context.Background(), QuiesceLimit+FlushLimit)
	defer cancel()
	err := k.root.Quiesce(rest)
	return errors.Join(err, k.close())
}

func (k *Kernel) close() error {
	release, cancel := context.WithTimeout(context.Background(), ReleaseLimit)
	defer cancel()
	err := k.owner.Close(release)
	tidy, cancelTidy := context.WithTimeout(context.Background(), stopHooksLimit)
	defer cancelTidy()
	return errors.Join(err, k.hooks.during(tidy, k.app.Stop))
}

// Run composes and starts a profile, serves until its end, and returns the exit
// code for main. SIGTERM ends like a finished client with ExitOK, SIGINT with
// ExitInterrupted; a second signal returns at once. SIGHUP reloads the profile
// where opts.Reload says how (decision R30), and else ends like SIGTERM. What a
// front end does about signals goes ahead of all that (Root.OnSignal), but for a
// reload.
// Whatever goes wrong is said on stderr under the program's name.
func Run(ctx context.Context, program string, stderr io.Writer, opts Options) int {
	signals := make(chan os.Signal, 2)
	// Never stopped: a signal between the return and the exit of main must not
	// turn a clean end into a death.
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)

	type outcome struct {
		code int
		err  error
	}
	done := make(chan outcome, 1)
	ending := make(chan int, 1)
	hangup := make(chan struct{}, 1)
	var root atomic.Pointer[Root]
	life, end := context.WithCancel(ctx)
	defer end()
	go func() {
		code, err := serve(life, opts, ending, hangup, &root)
		done <- outcome{code, err}
	}()

	signalled := false
	for {
		select {
		case o := <-done:
			if o.err != nil {
				fmt.Fprintf(stderr, "%s: %s\n", program, strings.ReplaceAll(o.err.Error(), "\n", "\n  "))
			}
			return o.code
		case s := <-signals:
			if s == syscall.SIGHUP && opts.Reload != nil && !signalled {
				select {
				case hangup <- struct{}{}:
				default: // one is waiting already
				}
				continue
			}
			code, late := ExitOK, ExitTerminated
			if s == os.Interrupt {
				code, late = ExitInterrupted, ExitInterrupted
			}
			if signalled {
				return late
			}
			if r := root.Load(); r != nil {
				if takes, ends := r.signalled(s); takes {
					signalled = ends
					continue
				}
			}
			signalled = true
			ending <- code
			end()
		}
	}
}

// serve is the whole life of a kernel. ending holds the code to end with once
// ctx has ended.
func serve(ctx context.Context, opts Options, ending <-chan int, hangup <-chan struct{}, root *atomic.Pointer[Root]) (int, error) {
	defer startLightly()()
	// The kernel's own context must outlive ctx: it ends last.
	k, err := Compose(context.WithoutCancel(ctx), opts)
	if err == nil && !k.claimed["stdio"] {
		err = errors.Join(fmt.Errorf("profile %s serves nobody: no enabled row claims stdio; run a profile with a front end", opts.Profile.Name), k.close())
	}
	if err == nil {
		root.Store(k.root)
		err = k.Start(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			return endCode(ending), nil
		}
		return ExitFailure, fmt.Errorf("plugin tree failed to load:\n%w", err)
	}
	if opts.Reload != nil {
		k.owner.Go("reloads", func(ctx context.Context) { k.reloads(ctx, hangup, opts.Changed) })
	}
	select {
	case <-k.root.Exiting():
	case <-ctx.Done():
		k.root.Exit(endCode(ending))
	}
	code, err := k.Wait(ctx)
	if err != nil {
		// The work is done and on the disk; what did not let go is worth a line,
		// not a failure.
		k.opts.Log.Warn("the end of the process was not clean", "error", err)
	}
	return code, nil
}

func endCode(ending <-chan int) int {
	select {
	case code := <-ending:
		return code
	default:
		return ExitOK
	}
}
