//go:build unix

package stdio_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"dsh/kernel/stdio"
)

// modeVar makes the test binary one of the programs below instead: what Take
// does can only be seen from outside of a process.
const modeVar = "DSH_STDIO_TEST"

// limit is for hangs only.
const limit = 30 * time.Second

func TestMain(m *testing.M) {
	mode := os.Getenv(modeVar)
	switch mode {
	case "":
		os.Exit(m.Run())
	case "sleep":
		time.Sleep(limit)
		os.Exit(0)
	case "cat":
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	p, err := stdio.Take()
	if err == nil {
		err = programs[mode](p)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", mode, err)
		os.Exit(1)
	}
}

var programs = map[string]func(*stdio.Pair) error{
	"prints": func(p *stdio.Pair) error {
		for range 3 {
			fmt.Println("printed")
			if _, err := unix.Write(1, []byte("raw\n")); err != nil {
				return fmt.Errorf("raw write: %w", err)
			}
			if _, err := fmt.Fprintln(p.Out, "frame"); err != nil {
				return err
			}
			// A finalizer must not close what stands for descriptors 0 and 1.
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
		cmd := self("cat")
		cmd.Stdin, cmd.Stdout = strings.NewReader("child\n"), os.Stdout
		return cmd.Run()
	},
	"parent of a file-less child":    func(p *stdio.Pair) error { return leaveChild(p, self("sleep")) },
	"parent of an inheriting child":  func(p *stdio.Pair) error { return leaveChild(p, inheriting(self("sleep"))) },
	"parent of a raw forked child":   leaveRaw,
	"parent of a shell's background": leaveShell,
	"reads": func(p *stdio.Pair) error {
		buf := make([]byte, 10)
		if n, err := os.Stdin.Read(buf); n != 0 || err != io.EOF {
			return fmt.Errorf("os.Stdin gave %d bytes, %v", n, err)
		}
		if n, err := unix.Read(0, buf); n != 0 || err != nil {
			return fmt.Errorf("descriptor 0 gave %d bytes, %v", n, err)
		}
		cmd := self("cat")
		cmd.Stdin = os.Stdin
		if got, err := cmd.Output(); len(got) > 0 || err != nil {
			return fmt.Errorf("a child read %q, %v", got, err)
		}
		_, err := io.Copy(p.Out, p.In)
		return err
	},
	"outlives its reader": func(p *stdio.Pair) error {
		if _, err := io.Copy(io.Discard, p.In); err != nil { // ends when the reader has gone
			return err
		}
		for range 2 {
			if _, err := p.Out.WriteString("frame\n"); !errors.Is(err, syscall.EPIPE) {
				return fmt.Errorf("write: %v, want EPIPE", err)
			}
		}
		_, err := fmt.Fprintln(os.Stderr, "alive")
		return err
	},
	"outlives its log": func(p *stdio.Pair) error {
		if _, err := io.Copy(io.Discard, p.In); err != nil {
			return err
		}
		for _, write := range []func() error{
			func() error { _, err := fmt.Fprintln(os.Stderr, "log"); return err },
			func() error { _, err := fmt.Println("print"); return err },
			func() error { _, err := unix.Write(2, []byte("raw")); return err },
		} {
			if err := write(); !errors.Is(err, syscall.EPIPE) {
				fmt.Fprintf(p.Out, "write: %v, want EPIPE\n", err)
			}
		}
		// The default action of SIGPIPE, on which shell pipelines rely, is left
		// to the children.
		out, err := exec.Command("sh", "-c", "kill -PIPE $$; echo survived").Output()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
			fmt.Fprintf(p.Out, "child: %q, %v, want death by SIGPIPE\n", out, err)
		}
		_, err = fmt.Fprintln(p.Out, "alive")
		return err
	},
	"terminal": func(p *stdio.Pair) error {
		_, err := fmt.Fprintln(p.Out, p.Terminal())
		return err
	},
	"echo": func(p *stdio.Pair) error {
		_, err := io.Copy(p.Out, p.In)
		return err
	},
	"started without descriptors": func(p *stdio.Pair) error {
		if n, err := p.In.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			return fmt.Errorf("read: %d, %v, want the end", n, err)
		}
		if _, err := p.Out.WriteString("frame\n"); err != nil {
			return err
		}
		fmt.Println("alive")
		return nil
	},
}

// self is this binary as the program of that name.
func self(mode string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	// With -race every process would sleep for a second at its end.
	cmd.Env = append(os.Environ(), modeVar+"="+mode, "GORACE=atexit_sleep_ms=0")
	return cmd
}

func inheriting(cmd *exec.Cmd) *exec.Cmd {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// leaveChild starts cmd, tells its process id and ends before it.
func leaveChild(p *stdio.Pair, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(p.Out, cmd.Process.Pid)
	return err
}

// leaveRaw passes what this process calls 0, 1 and 2, without os/exec between.
func leaveRaw(p *stdio.Pair) error {
	cmd := self("sleep")
	pid, err := syscall.ForkExec(cmd.Path, cmd.Args, &syscall.ProcAttr{Env: cmd.Env, Files: []uintptr{0, 1, 2}})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Out, pid)
	return err
}

// leaveShell has the shell leave a process in the background.
func leaveShell(p *stdio.Pair) error {
	cmd := exec.Command("sh", "-c", `sleep 30 <&0 >&2 & echo $!`)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	pid, err := cmd.Output()
	if err != nil {
		return err
	}
	_, err = p.Out.Write(pid)
	return err
}

// log is a file for the standard error of a child: unlike a pipe it does not
// make Wait wait for grandchildren.
func log(t *testing.T, cmd *exec.Cmd) func() string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	cmd.Stderr = f
	return func() string {
		t.Helper()
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// pipe returns a pipe whose ends are closed with the test, if not before.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// run runs the program of that name to its end.
func run(t *testing.T, mode, input string) (stdout, stderr string) {
	t.Helper()
	cmd := self(mode)
	text := log(t, cmd)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", mode, err, text())
	}
	return string(out), text()
}

func TestOnlyThePairReachesStdout(t *testing.T) {
	stdout, stderr := run(t, "prints", "")
	if want := strings.Repeat("frame\n", 3); stdout != want {
		t.Errorf("stdout is %q, want %q", stdout, want)
	}
	if want := strings.Repeat("printed\nraw\n", 3) + "child\n"; stderr != want {
		t.Errorf("stderr is %q, want %q", stderr, want)
	}
}

func TestOnlyThePairReadsStdin(t *testing.T) {
	const input = "{\"id\":1}\n{}\n"
	if stdout, _ := run(t, "reads", input); stdout != input {
		t.Errorf("the pair read %q, want %q", stdout, input)
	}
}

// Spec jsonrpc 0.3 row 7: a grandchild that holds stdout open keeps a client
// from seeing the end of the runtime. One that holds stdin open would keep a
// client's writes from failing. The same goes for what a careless parent let slip.
func TestGrandchildHoldsNoProtocolDescriptor(t *testing.T) {
	for _, mode := range []string{
		"parent of a file-less child",
		"parent of an inheriting child",
		"parent of a raw forked child",
		"parent of a shell's background",
	} {
		t.Run(mode, func(t *testing.T) {
			cmd := self(mode)
			text := log(t, cmd)
			stdin, toChild := pipe(t)
			fromChild, stdout := pipe(t)
			fromSlip, slip := pipe(t)
			cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = stdin, stdout, []*os.File{slip}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stdin.Close()
			stdout.Close()
			slip.Close()
			for _, f := range []*os.File{fromChild, fromSlip} {
				if err := f.SetReadDeadline(time.Now().Add(limit / 3)); err != nil {
					t.Fatal(err)
				}
			}
			all, err := io.ReadAll(fromChild)
			_, slipErr := io.ReadAll(fromSlip)
			if waitErr := cmd.Wait(); waitErr != nil {
				t.Fatalf("child: %v\n%s", waitErr, text())
			}
			pid, convErr := strconv.Atoi(strings.TrimSpace(string(all)))
			if convErr != nil {
				t.Fatalf("child said %q", all)
			}
			// The grandchild must have been there all the time.
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Errorf("grandchild %d had gone: %v", pid, err)
			}
			if err != nil {
				t.Errorf("no end of file on stdout after the child ended: %v", err)
			}
			if slipErr != nil {
				t.Errorf("no end of file on descriptor 3 after the child ended: %v", slipErr)
			}
			if _, err := toChild.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("write to stdin after the child ended: %v, want EPIPE", err)
			}
		})
	}
}

func TestBrokenPipeDoesNotEndTheProcess(t *testing.T) {
	t.Run("stdout", func(t *testing.T) {
		cmd := self("outlives its reader")
		text := log(t, cmd)
		r, stdout := pipe(t)
		cmd.Stdout = stdout
		endAfter(t, cmd, func() { stdout.Close(); r.Close() })
		if got := text(); got != "alive\n" {
			t.Errorf("stderr is %q, want %q", got, "alive\n")
		}
	})
	t.Run("stderr", func(t *testing.T) {
		cmd := self("outlives its log")
		r, stderr := pipe(t)
		var stdout bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, stderr
		endAfter(t, cmd, func() { stderr.Close(); r.Close() })
		if got := stdout.String(); got != "alive\n" {
			t.Errorf("stdout is %q, want %q", got, "alive\n")
		}
	})
}

// endAfter starts cmd, lets gone happen, and only then ends its input.
func endAfter(t *testing.T, cmd *exec.Cmd, gone func()) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone()
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
}

// The mode of an open file is shared with the parent, who may rely on it.
func TestTakeKeepsTheBlockingMode(t *testing.T) {
	for _, nonblocking := range []bool{false, true} {
		t.Run(fmt.Sprint("nonblocking ", nonblocking), func(t *testing.T) {
			raw := func() (r, w *os.File) {
				var fds [2]int
				if err := unix.Pipe(fds[:]); err != nil {
					t.Fatal(err)
				}
				for _, fd := range fds {
					unix.CloseOnExec(fd)
					if err := unix.SetNonblock(fd, nonblocking); err != nil {
						t.Fatal(err)
					}
				}
				r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
				t.Cleanup(func() { r.Close(); w.Close() })
				return r, w
			}
			stdin, toChild := raw()
			fromChild, stdout := raw()
			cmd := self("echo")
			text := log(t, cmd)
			cmd.Stdin, cmd.Stdout = stdin, stdout
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 5)
			for _, part := range []string{"first", "later"} {
				if _, err := toChild.WriteString(part); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(fromChild, buf); err != nil || string(buf) != part {
					t.Fatalf("got %q, %v, want %q", buf, err, part)
				}
			}
			for name, f := range map[string]*os.File{"stdin": stdin, "stdout": stdout} {
				flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
				if err != nil {
					t.Fatal(err)
				}
				if got := flags&unix.O_NONBLOCK != 0; got != nonblocking {
					t.Errorf("%s: non-blocking is %v, was %v", name, got, nonblocking)
				}
			}
			toChild.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("child: %v\n%s", err, text())
			}
		})
	}
}

func TestTakeWithoutDescriptors(t *testing.T) {
	program := self("started without descriptors")
	cmd := exec.Command("sh", "-c", `exec "$0" <&- >&-`, program.Path)
	cmd.Env = program.Env
	text := log(t, cmd)
	if err := cmd.Run(); err != nil {
		t.Errorf("child: %v", err)
	}
	if got := text(); got != "alive\n" {
		t.Errorf("stderr is %q, want %q", got, "alive\n")
	}
}

func TestPipeAndNullDeviceAreNoTerminal(t *testing.T) {
	if stdout, _ := run(t, "terminal", ""); stdout != "false\n" {
		t.Errorf("pipe: Terminal is %q, want false", stdout)
	}
	out, err := self("terminal").Output() // os/exec gives it the null device
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != "false\n" {
		t.Errorf("null device: Terminal is %q, want false", out)
	}
}
