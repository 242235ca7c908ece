package sandboxlandlock

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// fileRights can be given for a file, folderRights for what is below a folder.
	fileRights   = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	folderRights = fileRights | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO
	// takenRights are those that a bound thread has only where they are given. To
	// make a device is given nowhere: who may, could write to a disk through one.
	takenRights = folderRights | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// known are the rights that a version of Landlock has.
func known(abi int) uint64 {
	all := ^uint64(0)
	if abi < abiRefer {
		all &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi < abiTruncate {
		all &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < abiIoctl {
		all &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return all
}

// detect asks the kernel, and tries what it says: a system call filter may let
// the question pass and not the deed.
func detect() system {
	var s system
	if abi, err := landlockVersion(); err != nil {
		s.noLandlock = unavailable(err)
	} else if err := try(rights{abi: abi, files: true}); err != nil {
		s.noLandlock = unavailable(err)
	} else {
		s.abi = abi
	}
	if arch() == 0 {
		s.noFilter = "the network stays open: it is closed only on amd64 and arm64, not on " + runtime.GOARCH
	} else if err := try(rights{noNetwork: true}); err != nil {
		s.noFilter = fmt.Sprintf("the network stays open, since system calls cannot be filtered here: %v", err)
	}
	return s
}

func landlockVersion() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(abi), nil
}

// unavailable says why there is no Landlock, and what to do.
func unavailable(err error) string {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return "this kernel has no Landlock; use Linux 5.13 or later, built with it"
	case errors.Is(err, unix.EOPNOTSUPP):
		return "Landlock is off on this machine; add landlock to the lsm= option that the kernel is started with"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "Landlock is forbidden here, as by the system call filter of a container; allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self in it"
	case errors.Is(err, unix.E2BIG):
		return "this process is itself confined as many times as the kernel allows; start it outside of so many sandboxes"
	}
	return fmt.Sprintf("Landlock cannot be used: %v", err)
}

// startBound starts the command with no more than the rights.
func startBound(cmd *exec.Cmd, r rights) error {
	if a := cmd.SysProcAttr; a != nil && a.Pdeathsig != 0 {
		return errors.New("confine: Pdeathsig is set, whose signal would come at once because the starting thread ends; leave it out")
	}
	return onBoundThread(r, cmd.Start)
}

func try(r rights) error { return onBoundThread(r, func() error { return nil }) }

// onBoundThread runs f in a thread that has no more than the rights and ends
// with f.
func onBoundThread(r rights, f func() error) error {
	ruleset := -1
	var err error
	if r.files {
		if ruleset, err = createRuleset(r); err != nil {
			return fmt.Errorf("confine: %w", err)
		}
		defer unix.Close(ruleset)
	}
	onThrownThread(func() {
		if err = bind(ruleset, r.noNetwork); err != nil {
			err = fmt.Errorf("confine: %w", err)
			return
		}
		err = f()
	})
	return err
}

// onThrownThread runs f in a thread that ends with it.
func onThrownThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread never ends, and stands for the process in /proc. While
			// it is held here the next goroutine gets another.
			onThrownThread(f)
			runtime.UnlockOSThread()
			return
		}
		// A goroutine that ends without unlocking takes its thread along.
		f()
	}()
	<-done
}

// createRuleset opens a ruleset; the caller closes it.
func createRuleset(r rights) (int, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: takenRights & known(r.abi)}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return -1, fmt.Errorf("create a Landlock ruleset: %w", errno)
	}
	allow := func(paths []string, accept func(path, leadsTo string) error) error {
		for _, path := range paths {
			if err := allowWrite(int(fd), path, r.abi, accept); err != nil {
				return fmt.Errorf("let %s be written: %w", path, err)
			}
		}
		return nil
	}
	if err := errors.Join(allow(r.devices, nil), allow(r.write, r.pinned)); err != nil {
		unix.Close(int(fd))
		return -1, err
	}
	return int(fd), nil
}

// allowWrite gives the rights for a file, or for a folder and all below it, if
// accept, unless nil, takes where the path leads. A path that does not lead
// anywhere is left out.
func allowWrite(ruleset int, path string, abi int, accept func(path, leadsTo string) error) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP, unix.ENAMETOOLONG:
		return nil
	default:
		return err
	}
	defer unix.Close(fd)
	if accept != nil {
		leadsTo, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil {
			return fmt.Errorf("see where it leads: %w", err)
		}
		if err := accept(path, leadsTo); err != nil {
			return err
		}
	}
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	rule := unix.LandlockPathBeneathAttr{Parent_fd: int32(fd), Allowed_access: fileRights & known(abi)}
	if info.Mode&unix.S_IFMT == unix.S_IFDIR {
		rule.Allowed_access = folderRights & known(abi)
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// bind takes from the calling thread, for ever, what the ruleset does not give,
// if there is one, and the network.
func bind(ruleset int, noNetwork bool) error {
	// Otherwise the kernel wants a privilege: a program with a set-user-id bit
	// could be fooled by what it is refused.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if ruleset >= 0 {
		if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
			return fmt.Errorf("enforce a Landlock ruleset: %w", errno)
		}
	}
	if noNetwork {
		if err := filterSockets(); err != nil {
			return fmt.Errorf("filter system calls: %w", err)
		}
	}
	return nil
}
