package sandboxlandlock

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"dsh/kernel"
	"dsh/kernel/process"
)

// deedVar makes the test binary do one deed instead, and say how it went.
const deedVar = "SANDBOX_TEST_DEED"

func TestMain(m *testing.M) {
	name := os.Getenv(deedVar)
	if name == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := deeds[name](os.Args[1:]); err != nil {
		var errno unix.Errno
		if errors.As(err, &errno) {
			fmt.Println(unix.ErrnoName(errno))
		} else {
			fmt.Println(err)
		}
		os.Exit(1)
	}
	fmt.Println("done")
}

// deed is a command that does the deed of that name.
func deed(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	// With -race every process would sleep for a second at its end.
	cmd.Env = append(os.Environ(), deedVar+"="+name, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// deeds get paths or addresses.
var deeds = map[string]func(args []string) error{
	"create": func(a []string) error {
		return closing(unix.Open(a[0], unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644))
	},
	"open to write":   func(a []string) error { return closing(unix.Open(a[0], unix.O_WRONLY, 0)) },
	"open to append":  func(a []string) error { return closing(unix.Open(a[0], unix.O_RDWR|unix.O_APPEND, 0)) },
	"open and cut":    func(a []string) error { return closing(unix.Open(a[0], unix.O_RDONLY|unix.O_TRUNC, 0)) },
	"open to read":    func(a []string) error { return closing(unix.Open(a[0], unix.O_RDONLY, 0)) },
	"cut":             func(a []string) error { return unix.Truncate(a[0], 0) },
	"make a folder":   func(a []string) error { return unix.Mkdir(a[0], 0o755) },
	"make a pipe":     func(a []string) error { return unix.Mkfifo(a[0], 0o644) },
	"make a disk":     func(a []string) error { return unix.Mknod(a[0], unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))) },
	"make a device":   func(a []string) error { return unix.Mknod(a[0], unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
	"make a link":     func(a []string) error { return unix.Symlink("anywhere", a[0]) },
	"remove":          func(a []string) error { return unix.Unlink(a[0]) },
	"remove a folder": func(a []string) error { return unix.Rmdir(a[0]) },
	"move":            func(a []string) error { return unix.Rename(a[0], a[1]) },
	"exchange": func(a []string) error {
		return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
	},
	"link":                 func(a []string) error { return unix.Link(a[0], a[1]) },
	"mount":                func(a []string) error { return unix.Mount("none", a[0], "tmpfs", 0, "") },
	"listen":               func([]string) error { return closeAfter(net.Listen("tcp", "127.0.0.1:0")) },
	"connect":              func(a []string) error { return closeAfter(net.Dial(a[0], a[1])) },
	"connect by MPTCP":     connectMPTCP,
	"interfaces":           func([]string) error { _, err := net.Interfaces(); return err },
	"make a ring":          ring,
	"terminal":             terminal,
	"nest":                 nest,
	"filtered":             filtered,
	"as a child of others": descend,
}

func closing(fd int, err error) error {
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

func closeAfter(c interface{ Close() error }, err error) error {
	if err == nil {
		err = c.Close()
	}
	return err
}

func connectMPTCP(a []string) error {
	var d net.Dialer
	d.SetMultipathTCP(true)
	return closeAfter(d.Dial(a[0], a[1]))
}

// ring makes an io_uring.
func ring([]string) error {
	var params [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// terminal opens a terminal of its own.
func terminal([]string) error {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	tty, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	if _, err := unix.IoctlGetTermios(tty, unix.TCGETS); err != nil {
		return err
	}
	_, err = unix.Write(tty, []byte("x"))
	return err
}

// descend does another deed as a grandchild in a session of its own.
func descend(a []string) error {
	cmd := exec.Command("sh", "-c", `setsid sh -c '"$0" "$@" & wait $!' "$0" "$@"`, os.Args[0])
	cmd.Args = append(cmd.Args, a[1:]...)
	cmd.Env = append(os.Environ(), deedVar+"="+a[0])
	out, err := cmd.Output()
	if err != nil {
		return errors.New(strings.TrimSpace(string(out)))
	}
	return nil
}

// sandboxOf makes a sandbox in a process that does a deed.
func sandboxOf() *Sandbox {
	return New(Params{Self: kernel.Instance{Log: slog.New(slog.DiscardHandler)}})
}

// nest confines itself in itself until that is no longer possible, and says how
// often it was.
func nest(a []string) error {
	depth, err := strconv.Atoi(a[0])
	if err != nil {
		return err
	}
	s := sandboxOf()
	everything := &process.Confinement{Mode: process.WorkspaceWrite, Write: []string{"/"}}
	if r := s.Probe(everything); r.Level != process.ReachedFull || depth > 100 {
		fmt.Println(depth, r.Level, r.Missing)
		return nil
	}
	cmd := deed("nest", strconv.Itoa(depth+1))
	cmd.Stdout = os.Stdout
	if _, err := s.Start(cmd, everything); err != nil {
		return err
	}
	return cmd.Wait()
}

// filtered does without the system calls from a[0] to a[1], which fail with
// a[2], and then has a sandbox start a program that makes the file a[3]. a[4]
// closes the network, a[5] is strict.
func filtered(a []string) error {
	var n [3]uint32
	for i := range n {
		v, err := strconv.Atoi(a[i])
		if err != nil {
			return err
		}
		n[i] = uint32(v)
	}
	if err := refuse(n[0], n[1], n[2]); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	cmd := exec.Command("touch", a[3])
	reached, err := sandboxOf().Start(cmd, &process.Confinement{
		Mode: process.WorkspaceWrite, Write: []string{filepath.Dir(a[3])}, NoNetwork: a[4] == "network", Strict: a[5] == "strict",
	})
	if err != nil {
		return errors.New(err.Error())
	}
	fmt.Println(reached.Level, reached.Missing)
	return cmd.Wait()
}

// refuse makes the system calls from first to last fail in all threads.
func refuse(first, last, errno uint32) error {
	const load, less, more, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	program := []unix.SockFilter{
		{Code: load, K: 0},
		{Code: less, K: first, Jf: 2},
		{Code: more, K: last, Jt: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | errno},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	return nil
}
