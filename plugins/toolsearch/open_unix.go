//go:build unix

package toolsearch

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// openWalked opens a regular file that a walk has met, with half the system calls
// of textfile.Open; a path that has become something else meanwhile is an error.
func openWalked(path string) (io.ReadCloser, int64, error) {
	fd, err := again(func() (int, error) {
		return syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, 0, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		syscall.Close(fd)
		return nil, 0, &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	return &walked{fd, st.Size}, st.Size, nil
}

// walked is a file that is read up to the size that it had when it was opened.
type walked struct {
	fd   int
	left int64
}

func (f *walked) Read(p []byte) (int, error) {
	n, err := again(func() (int, error) { return syscall.Read(f.fd, p) })
	if err != nil {
		return 0, err
	}
	f.left -= int64(n)
	if n == 0 && len(p) > 0 || n > 0 && f.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (f *walked) Close() error { return syscall.Close(f.fd) }

// again repeats a system call that a signal has interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != syscall.EINTR {
			return n, err
		}
	}
}
