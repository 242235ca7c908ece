// Package kerneltest boots profiles inside a test: the real kernel, the real
// plugins, pipes instead of the process's descriptors.
package kerneltest

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"testing"
	"testing/fstest"
	"time"

	"dsh/kernel"
	"dsh/kernel/profile"
	"dsh/kernel/stdio"
)

// Options say what to boot.
type Options struct {
	// Profile is a name in FS or a path.
	Profile string
	FS      fs.FS
	// Text is a profile itself, in place of Profile and FS.
	Text    string
	Plugins []kernel.Plugin
	// Home is $DSH_HOME; "" makes a temporary one.
	Home string
	// Sets are as in profile.Options; Env looks up variables, nil finds none.
	Sets []string
	Env  func(string) (string, bool)
	// Log takes the log; nil discards it.
	Log *slog.Logger
}

// Booted is a running kernel with the far ends of its wire.
type Booted struct {
	Kernel *kernel.Kernel
	Home   string
	// In is written to, and closed, by the test in place of a client; Out is read.
	In  *os.File
	Out *os.File
	// far is the end of Out that the profile writes to.
	far *os.File
}

// Boot starts a profile and stops it at the end of the test.
func Boot(t testing.TB, o Options) *Booted {
	t.Helper()
	if o.Home == "" {
		o.Home = t.TempDir()
	}
	if o.Text != "" {
		o.Profile, o.FS = "test", fstest.MapFS{"test.yaml": {Data: []byte(o.Text)}}
	}
	p, err := profile.Load(profile.Options{Name: o.Profile, Embedded: o.FS, Home: o.Home, Sets: o.Sets, Env: o.Env})
	if err != nil {
		t.Fatal(err)
	}
	serverIn, in := pipe(t)
	out, serverOut := pipe(t)
	k, err := kernel.Compose(context.Background(), kernel.Options{
		Plugins: o.Plugins, Profile: p, Log: o.Log,
		Stdio: &stdio.Pair{In: serverIn, Out: serverOut},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // a front end that reads must see the end
		if err := k.Stop(); err != nil {
			t.Errorf("stop profile %s: %v", o.Profile, err)
		}
	})
	return &Booted{Kernel: k, Home: o.Home, In: in, Out: out, far: serverOut}
}

// Seam gives what a row of the profile provides.
func Seam[T any](t testing.TB, b *Booted) T {
	t.Helper()
	v, ok := kernel.Seam[T](b.Kernel)
	if !ok {
		t.Fatalf("no row of the profile provides %v", reflect.TypeFor[T]())
	}
	return v
}

// WaitExit waits until the profile asked for the end of the process and gives
// its code. Out ends behind what was written to it, as with a process.
func (b *Booted) WaitExit(t *testing.T) int {
	t.Helper()
	select {
	case <-b.Kernel.Root().Exiting():
	case <-time.After(10 * time.Second):
		t.Fatal("the profile did not ask for its end")
	}
	code, err := b.Kernel.Wait(context.Background())
	if err != nil {
		t.Errorf("release: %v", err)
	}
	_ = b.far.Close() // a second call finds it closed
	return code
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}
