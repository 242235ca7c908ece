//go:build linux

package stdio_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()

	cmd := self("terminal")
	text := log(t, cmd)
	cmd.Stdin = tty
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, text())
	}
	if string(out) != "true\n" {
		t.Errorf("Terminal is %q, want true", out)
	}
}
