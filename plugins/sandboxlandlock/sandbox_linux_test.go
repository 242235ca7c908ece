package sandboxlandlock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"dsh/kernel/process"
)

// place is a folder that may be written and one that may not, with a file, a
// folder, and a file in it each.
type place struct{ in, out string }

func newPlace(t *testing.T) place {
	t.Helper()
	root := t.TempDir()
	p := place{filepath.Join(root, "in"), filepath.Join(root, "out")}
	for _, dir := range []string{p.in, p.out} {
		for _, name := range []string{"file", "other", "folder/file"} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("text of "+name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// state describes what is outside.
func (p place) state(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(p.out, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		text := []byte{}
		if info.Mode().IsRegular() {
			text, err = os.ReadFile(path)
		}
		stat := info.Sys().(*syscall.Stat_t)
		links := stat.Nlink
		if info.IsDir() {
			links = 0
		}
		fmt.Fprintf(&b, "%s %v %d %d %q\n", path, info.Mode(), stat.Ino, links, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func (p place) expand(args []string) []string {
	r := strings.NewReplacer("IN", p.in, "OUT", p.out)
	expanded := make([]string, len(args))
	for i, a := range args {
		expanded[i] = r.Replace(a)
	}
	return expanded
}

// confined runs a command to its end and gives what it said.
func confined(t *testing.T, s *Sandbox, cmd *exec.Cmd, c *process.Confinement) (string, process.Reached) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	reached, err := s.Start(cmd, c)
	if err != nil {
		t.Fatal(err)
	}
	// The outcome is in the output or in cmd.ProcessState.
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return strings.TrimSuffix(out.String(), "\n"), reached
}

// outside are deeds that would change what is outside.
var outside = []struct {
	name string
	args []string
}{
	{"create", []string{"OUT/new"}},
	{"create", []string{"IN/../out/new"}},
	{"create", []string{"IN/door/new"}}, // a link that leads out
	{"open to write", []string{"OUT/file"}},
	{"open to append", []string{"OUT/file"}},
	{"open and cut", []string{"OUT/file"}},
	{"cut", []string{"OUT/file"}},
	{"make a folder", []string{"OUT/new"}},
	{"make a pipe", []string{"OUT/new"}},
	{"make a link", []string{"OUT/new"}},
	{"remove", []string{"OUT/file"}},
	{"remove a folder", []string{"OUT/empty"}},
	{"move", []string{"OUT/file", "OUT/new"}},
	{"move", []string{"IN/file", "OUT/new"}},
	{"move", []string{"OUT/file", "IN/new"}},
	{"move", []string{"OUT/folder", "IN/new"}},
	{"move", []string{"IN/file", "OUT/file"}},
	{"exchange", []string{"IN/file", "OUT/file"}},
	{"link", []string{"IN/file", "OUT/new"}},
	{"link", []string{"OUT/file", "IN/new"}}, // which could then be written
	{"mount", []string{"OUT/empty"}},
}

// TestOutside: nothing outside is changed, neither by the program nor by what it
// starts (case B102).
func TestOutside(t *testing.T) {
	s, log := newSandbox(t, Config{}, nil)
	for _, mode := range []string{process.ReadOnly, process.WorkspaceWrite} {
		for _, tc := range outside {
			t.Run(fmt.Sprint(mode, " ", tc.name, " ", tc.args), func(t *testing.T) {
				for _, how := range []string{"itself", "as a child of others"} {
					p := newPlace(t)
					if err := os.Symlink(p.out, filepath.Join(p.in, "door")); err != nil {
						t.Fatal(err)
					}
					before := p.state(t)
					cmd := deed(tc.name, p.expand(tc.args)...)
					if how != "itself" {
						cmd = deed(how, append([]string{tc.name}, p.expand(tc.args)...)...)
					}
					said, reached := confined(t, s, cmd, &process.Confinement{Mode: mode, Write: []string{p.in}, Strict: true})
					if !slices.Contains([]string{"EACCES", "EXDEV", "EPERM"}, said) {
						t.Errorf("%s: it said %q, want a refusal", how, said)
					}
					if diff := cmp.Diff(before, p.state(t)); diff != "" {
						t.Errorf("%s: what is outside changed (-before +after):\n%s", how, diff)
					}
					if reached != (process.Reached{Level: process.ReachedFull}) {
						t.Errorf("reached %+v, want full", reached)
					}
				}
			})
		}
	}
	if log.Len() > 0 {
		t.Errorf("a confinement that holds made the log say:\n%s", log)
	}
}

// TestOutsideUnconfined: what TestOutside refuses works for an unconfined
// program, so that it is the confinement that refuses. To mount takes more.
func TestOutsideUnconfined(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	for _, tc := range outside {
		if tc.name == "mount" {
			continue
		}
		for _, c := range []*process.Confinement{nil, {Mode: process.FullAccess}} {
			p := newPlace(t)
			if err := os.Symlink(p.out, filepath.Join(p.in, "door")); err != nil {
				t.Fatal(err)
			}
			said, reached := confined(t, s, deed(tc.name, p.expand(tc.args)...), c)
			if said != "done" || reached.Level != process.ReachedNone {
				t.Errorf("%s %v: it said %q with %+v", tc.name, tc.args, said, reached)
			}
		}
	}
}

// TestInside: what is allowed works, and so does reading anything.
func TestInside(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"create", []string{"IN/new"}},
		{"create", []string{"IN/folder/new"}},
		{"open to write", []string{"IN/file"}},
		{"open and cut", []string{"IN/file"}},
		{"cut", []string{"IN/file"}},
		{"make a folder", []string{"IN/new"}},
		{"make a pipe", []string{"IN/new"}},
		{"make a link", []string{"IN/new"}},
		{"remove", []string{"IN/file"}},
		{"remove a folder", []string{"IN/empty"}},
		{"move", []string{"IN/file", "IN/folder/new"}},
		{"move", []string{"IN/folder", "IN/empty/new"}},
		{"move", []string{"IN/file", "OUT/empty/new"}}, // from one such folder to another
		{"exchange", []string{"IN/file", "IN/folder/file"}},
		{"link", []string{"IN/file", "IN/folder/new"}},
		{"open to write", []string{"OUT/other"}}, // given as a file
		{"cut", []string{"OUT/other"}},
		{"open to read", []string{"OUT/file"}},
		{"open to read", []string{"OUT"}},
		{"open to read", []string{"/etc/passwd"}},
		{"open to write", []string{"/dev/null"}},
		{"open to write", []string{"/dev/zero"}},
		{"open to write", []string{"/dev/full"}},
		{"open to write", []string{"/dev/urandom"}},
		{"open and cut", []string{"/dev/null"}},
		{"open to write", []string{"/dev/stderr"}},
		{"terminal", nil},
		{"listen", nil},
	} {
		t.Run(fmt.Sprint(tc.name, " ", tc.args), func(t *testing.T) {
			p := newPlace(t)
			via := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(filepath.Join(p.out, "empty"), via); err != nil {
				t.Fatal(err)
			}
			said, _ := confined(t, s, deed(tc.name, p.expand(tc.args)...), &process.Confinement{
				Mode:  process.WorkspaceWrite,
				Write: []string{p.in, filepath.Join(p.out, "other"), via, filepath.Join(p.in, "not there"), filepath.Join(p.in, "file/under a file")},
			})
			if said != "done" {
				t.Errorf("it said %q", said)
			}
		})
	}
}

// TestDevices: a program that may write a folder may not make a disk in it.
func TestDevices(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	p := newPlace(t)
	for _, name := range []string{"make a disk", "make a device"} {
		path := filepath.Join(p.in, name)
		said, _ := confined(t, s, deed(name, path), &process.Confinement{Mode: process.WorkspaceWrite, Write: []string{"/"}})
		if _, err := os.Lstat(path); err == nil || said != "EACCES" && said != "EPERM" {
			t.Errorf("%s: it said %q, want a refusal", name, said)
		}
	}
}

// TestSharedMemory is what semaphores need; a program that may write nothing has
// none.
func TestSharedMemory(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	path := fmt.Sprintf("/dev/shm/sandbox-test-%d", os.Getpid())
	t.Cleanup(func() { _ = os.Remove(path) })
	for _, tc := range []struct{ mode, want string }{{process.ReadOnly, "EACCES"}, {process.WorkspaceWrite, "done"}} {
		if said, _ := confined(t, s, deed("create", path), &process.Confinement{Mode: tc.mode}); said != tc.want {
			t.Errorf("%s: it said %q, want %q", tc.mode, said, tc.want)
		}
	}
}

// TestWritable: what the profile adds may be written under every confinement.
func TestWritable(t *testing.T) {
	p := newPlace(t)
	s, _ := newSandbox(t, Config{Writable: []string{p.in}}, nil)
	for path, want := range map[string]string{filepath.Join(p.in, "new"): "done", filepath.Join(p.out, "new"): "EACCES"} {
		if said, _ := confined(t, s, deed("create", path), &process.Confinement{Mode: process.ReadOnly}); said != want {
			t.Errorf("%s: it said %q, want %q", path, said, want)
		}
	}
}

// TestReplaced: a program that puts a link in the place of a folder that may be
// written opens nothing to the next one: neither below another such folder, even
// for a harness that starts later, nor where a program of another session may
// write. A folder that is made anew is as good as the old one.
func TestReplaced(t *testing.T) {
	var p place
	folder := func() string { return filepath.Join(p.in, "folder") }
	replace := func() {
		if err := errors.Join(os.RemoveAll(folder()), os.Symlink(p.out, folder())); err != nil {
			t.Fatal(err)
		}
	}
	create := func(s *Sandbox, write ...string) (string, error) {
		cmd := deed("create", filepath.Join(folder(), "new"))
		var out bytes.Buffer
		cmd.Stdout = &out
		if _, err := s.Start(cmd, &process.Confinement{Mode: process.WorkspaceWrite, Write: write}); err != nil {
			return "", err
		}
		_ = cmd.Wait() // the output says it
		return strings.TrimSpace(out.String()), nil
	}
	t.Run("below another", func(t *testing.T) {
		p = newPlace(t)
		replace()
		s, _ := newSandbox(t, Config{}, nil)
		for _, write := range [][]string{{p.in, folder()}, {folder(), p.in + "/"}} {
			if said, err := create(s, write...); said != "EACCES" || err != nil {
				t.Errorf("%v: it said %q, %v; want EACCES", write, said, err)
			}
		}
	})
	t.Run("by another session", func(t *testing.T) {
		p = newPlace(t)
		s, _ := newSandbox(t, Config{}, nil)
		if said, err := create(s, folder()); said != "done" || err != nil {
			t.Errorf("before: it said %q, %v", said, err)
		}
		replace()
		if said, err := create(s, folder()); err == nil || !strings.Contains(err.Error(), "it leads to "+p.out+" now") {
			t.Errorf("it said %q, %v; want a refusal that says where it leads", said, err)
		}
		if err := errors.Join(os.Remove(folder()), os.Mkdir(folder(), 0o755)); err != nil {
			t.Fatal(err)
		}
		if said, err := create(s, folder()); said != "done" || err != nil {
			t.Errorf("made anew: it said %q, %v", said, err)
		}
	})
}

// TestOthersMemory: the memory of the harness, where credentials are, is not
// open to a confined program.
func TestOthersMemory(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	memory := fmt.Sprintf("/proc/%d/mem", os.Getpid())
	if said, _ := confined(t, s, deed("open to read", memory), &process.Confinement{Mode: process.ReadOnly}); said != "EACCES" {
		t.Errorf("it said %q, want EACCES", said)
	}
}

func TestNoNetwork(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	other, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s, _ := newSandbox(t, Config{}, nil)
	p := newPlace(t)
	var (
		closed   = process.Confinement{Mode: process.ReadOnly, NoNetwork: true, Strict: true}
		open     = process.Confinement{Mode: process.ReadOnly, Strict: true}
		onlyThat = process.Confinement{Mode: process.FullAccess, NoNetwork: true, Strict: true}
	)
	for _, tc := range []struct {
		asks process.Confinement
		deed string
		args []string
		want string
	}{
		{closed, "connect", []string{"tcp", tcp.Addr().String()}, "EACCES"},
		{closed, "as a child of others", []string{"connect", "tcp", tcp.Addr().String()}, "EACCES"},
		{closed, "connect by MPTCP", []string{"tcp", tcp.Addr().String()}, "EACCES"},
		{closed, "connect", []string{"udp", "127.0.0.1:9"}, "EACCES"},
		{closed, "connect", []string{"udp6", "[::1]:9"}, "EACCES"},
		{closed, "listen", nil, "EACCES"},
		{closed, "make a ring", nil, "ENOSYS"},
		{closed, "connect", []string{"unix", other.Addr().String()}, "done"},
		{closed, "interfaces", nil, "done"},
		{closed, "create", []string{filepath.Join(p.out, "new")}, "EACCES"},
		{open, "connect", []string{"tcp", tcp.Addr().String()}, "done"},
		{open, "connect by MPTCP", []string{"tcp", tcp.Addr().String()}, "done"},
		{open, "connect", []string{"udp", "127.0.0.1:9"}, "done"},
		{onlyThat, "connect", []string{"tcp", tcp.Addr().String()}, "EACCES"},
		{onlyThat, "create", []string{filepath.Join(p.out, "new")}, "done"},
	} {
		t.Run(fmt.Sprint(tc.asks.Mode, tc.asks.NoNetwork, tc.deed, tc.args), func(t *testing.T) {
			said, reached := confined(t, s, deed(tc.deed, tc.args...), &tc.asks)
			if said != tc.want || reached.Level != process.ReachedFull {
				t.Errorf("it said %q with %+v, want %q with full", said, reached, tc.want)
			}
		})
	}
}

// TestOlder: with the rights of an older kernel, what Reached says of it is
// true.
func TestOlder(t *testing.T) {
	for _, tc := range []struct {
		abi             int
		cut, move, hold string
	}{
		{1, "done", "EXDEV", "partial"},
		{2, "done", "done", "partial"},
		{3, "EACCES", "done", "full"},
	} {
		t.Run(strconv.Itoa(tc.abi), func(t *testing.T) {
			s, _ := newSandbox(t, Config{}, &system{abi: tc.abi})
			p := newPlace(t)
			c := &process.Confinement{Mode: process.WorkspaceWrite, Write: []string{p.in}}
			for _, deedAndWant := range [][]string{
				{"cut", tc.cut, "OUT/file"},
				{"open to write", "EACCES", "OUT/file"},
				{"move", tc.move, "IN/file", "IN/folder/new"},
				{"create", "done", "IN/new"},
			} {
				said, reached := confined(t, s, deed(deedAndWant[0], p.expand(deedAndWant[2:])...), c)
				if said != deedAndWant[1] || reached.Level != tc.hold {
					t.Errorf("%s: it said %q with %+v, want %q with %s", deedAndWant[0], said, reached, deedAndWant[1], tc.hold)
				}
			}
		})
	}
}

// TestForbidden: a kernel without what is needed, or a container that forbids it
// (case B102).
func TestForbidden(t *testing.T) {
	const create, restrict = unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_RESTRICT_SELF
	for _, tc := range []struct {
		name        string
		first, last int
		errno       unix.Errno
		network     string
		says        string
	}{
		{"old kernel", create, restrict, unix.ENOSYS, "", "none this kernel has no Landlock"},
		{"off", create, restrict, unix.EOPNOTSUPP, "", "none Landlock is off"},
		{"forbidden", create, restrict, unix.EPERM, "", "none Landlock is forbidden"},
		{"only the deed is forbidden", restrict, restrict, unix.EPERM, "", "none Landlock is forbidden"},
		{"something else", restrict, restrict, unix.ENOMEM, "", "none Landlock cannot be used"},
		{"no filters", unix.SYS_SECCOMP, unix.SYS_SECCOMP, unix.EINVAL, "network", "partial the network stays open"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run := func(strict string) (said string, ran bool, err error) {
				marker := filepath.Join(t.TempDir(), "marker")
				out, err := deed("filtered", strconv.Itoa(tc.first), strconv.Itoa(tc.last), strconv.Itoa(int(tc.errno)), marker, tc.network, strict).CombinedOutput()
				_, missing := os.Stat(marker)
				return string(out), missing == nil, err
			}
			if said, ran, err := run(""); !strings.HasPrefix(said, tc.says) || !ran || err != nil {
				t.Errorf("it said %q, want %q; ran %v, error %v", said, tc.says, ran, err)
			}
			_, why, _ := strings.Cut(tc.says, " ")
			if said, ran, err := run("strict"); !strings.Contains(said, "this must hold in full and does not on this machine: "+why) || ran || err == nil {
				t.Errorf("strict: it said %q; ran %v, error %v", said, ran, err)
			}
		})
	}
}

// TestNested: a sandbox in a sandbox holds, sixteen times, which is the kernel's
// limit; then it says that it does not.
func TestNested(t *testing.T) {
	out, err := deed("nest", "0").CombinedOutput()
	if want := "16 none this process is itself confined as many times"; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("it said %q, %v, want %q", out, err, want)
	}
}

// TestExit: output and exit status are the command's own, whatever it says (case
// B102).
func TestExit(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	for _, code := range []int{0, 1, 2, 125, 126, 127, 255} {
		said := "confine: this kernel has no Landlock"
		cmd := exec.Command("sh", "-c", fmt.Sprintf("echo %q; exit %d", said, code))
		got, reached := confined(t, s, cmd, &process.Confinement{Mode: process.ReadOnly})
		if got != said || cmd.ProcessState.ExitCode() != code || reached.Level != process.ReachedFull {
			t.Errorf("got %q, %v, %+v; want status %d", got, cmd.ProcessState, reached, code)
		}
	}
	cmd := exec.Command("sh", "-c", "kill -SEGV $$")
	confined(t, s, cmd, &process.Confinement{Mode: process.ReadOnly})
	if w := cmd.ProcessState.Sys().(syscall.WaitStatus); w.Signal() != syscall.SIGSEGV {
		t.Errorf("it ended by %v, want SIGSEGV", w)
	}
	if _, err := s.Start(exec.Command("/no/such/program"), &process.Confinement{Mode: process.ReadOnly}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
}

func TestDeathSignal(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	cmd := exec.Command("sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if _, err := s.Start(cmd, &process.Confinement{Mode: process.ReadOnly}); err == nil || !strings.Contains(err.Error(), "Pdeathsig") || cmd.Process != nil {
		t.Errorf("error is %v, want a refusal that names Pdeathsig", err)
	}
}

// TestTools: what people have commands do works in a confined folder.
func TestTools(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, script, want string }{
		{"git", `git init -q . && echo x > x && git add x && git commit -q -m first && git checkout -q -b other && git gc -q && git log --format=%s`, "first"},
		{"go", `printf 'module m\n' > go.mod && printf 'package main\nfunc main() { println("built") }\n' > m.go && go build -o m . && ./m`, "built"},
		{"pipes and here documents", "cat <<X | tee copy | { read a; echo got $a; } 2>/dev/null >&1\nline\nX", "got line"},
		{"temporary files", `f=$(mktemp) && echo x > $f && mv $f here && cat here && rm here`, "x"},
		{"process substitution", `bash -c 'cat <(echo x) > y; cat y'`, "x"},
		{"background", `sleep 0.01 & wait $!; echo $?`, "0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, tmp := t.TempDir(), t.TempDir()
			cmd := exec.Command("sh", "-c", tc.script)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "GOTMPDIR="+tmp, "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local", "GOTELEMETRY=off",
				"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e")
			got, _ := confined(t, s, cmd, &process.Confinement{Mode: process.WorkspaceWrite, Write: []string{dir, tmp, strings.TrimSpace(string(cache))}})
			if got != tc.want {
				t.Errorf("it said %q, want %q", got, tc.want)
			}
		})
	}
}

// TestDescriptors: a program gets what it is given and nothing else.
func TestDescriptors(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("sh", "-c", `for fd in /proc/$$/fd/*; do if [ -e $fd ]; then echo ${fd##*/}; fi; done >&3`)
	cmd.ExtraFiles = []*os.File{w}
	confined(t, s, cmd, &process.Confinement{Mode: process.ReadOnly})
	w.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	// The shell keeps its own standard output in a descriptor from 10 on.
	fields := slices.DeleteFunc(strings.Fields(string(got)), func(s string) bool { return len(s) > 1 })
	if diff := cmp.Diff([]string{"0", "1", "2", "3"}, fields); diff != "" {
		t.Errorf("descriptors (-want +got):\n%s", diff)
	}
}

// threads gives the threads of this process, and those that may gain no new
// privileges, as every thread that was bound.
func threads(t *testing.T) (all, bound []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		status, err := os.ReadFile(filepath.Join("/proc/self/task", e.Name(), "status"))
		if err != nil {
			continue // it has ended meanwhile
		}
		all = append(all, e.Name())
		if bytes.Contains(status, []byte("NoNewPrivs:\t1")) {
			bound = append(bound, e.Name())
		}
	}
	return all, bound
}

// TestProcessStaysFree: however many programs are confined, no thread of this
// process stays bound, none pile up, no descriptor is left, and what is started
// unconfined is free.
func TestProcessStaysFree(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	p := newPlace(t)
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before, bound := threads(t)
	if len(bound) > 0 {
		t.Fatalf("threads %v are bound before the test", bound)
	}
	open := descriptors()
	const workers, starts = 8, 40
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range starts {
				cmd := exec.Command("sh", "-c", `: > "$0"/new`, p.out)
				if i%4 == 0 {
					if err := cmd.Run(); err != nil {
						t.Errorf("an unconfined program: %v", err)
					}
					continue
				}
				if _, err := s.Start(cmd, &process.Confinement{Mode: process.WorkspaceWrite, Write: []string{p.in}}); err != nil {
					t.Error(err)
				} else if err := cmd.Wait(); err == nil {
					t.Error("a confined program wrote outside")
				}
			}
		})
	}
	wg.Wait()
	var after []string
	// A thread ends a little later than its goroutine.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if after, bound = threads(t); len(bound) == 0 && len(after) < len(before)+4*workers {
			break
		}
	}
	if len(bound) > 0 {
		t.Errorf("threads %v of process %d are still bound", bound, os.Getpid())
	}
	if len(after) >= len(before)+4*workers {
		t.Errorf("%d threads before, %d after %d starts", len(before), len(after), workers*starts)
	}
	if n := descriptors(); n > open+workers {
		t.Errorf("%d descriptors before, %d after", open, n)
	}
	for range 4 * workers {
		wg.Go(func() {
			if err := os.WriteFile(filepath.Join(p.out, "file"), nil, 0o644); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkPlain(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkConfined(b *testing.B) {
	s, _ := newSandbox(b, Config{}, nil)
	c := &process.Confinement{Mode: process.WorkspaceWrite, Write: []string{b.TempDir(), os.TempDir()}}
	for b.Loop() {
		cmd := exec.Command("true")
		if _, err := s.Start(cmd, c); err != nil {
			b.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}
