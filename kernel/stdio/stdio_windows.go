//go:build windows

package stdio

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// take keeps the handles and gives the standard ones new values. The files
// that os.Stdin and os.Stdout were live on in the Pair.
func take() (*Pair, error) {
	in, out := os.Stdin, os.Stdout
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("take stdio: open %s: %w", os.DevNull, err)
	}
	for name, f := range map[string]*os.File{"stdin": in, "stdout": out} {
		// A program without a console may have no handle at all.
		if h := windows.Handle(f.Fd()); h != 0 && h != windows.InvalidHandle {
			if err := windows.SetHandleInformation(h, windows.HANDLE_FLAG_INHERIT, 0); err != nil {
				return nil, fmt.Errorf("take stdio: keep %s from children: %w", name, err)
			}
		}
	}
	if err := windows.SetStdHandle(windows.STD_INPUT_HANDLE, windows.Handle(null.Fd())); err != nil {
		return nil, fmt.Errorf("take stdio: point stdin at %s: %w", os.DevNull, err)
	}
	if err := windows.SetStdHandle(windows.STD_OUTPUT_HANDLE, windows.Handle(os.Stderr.Fd())); err != nil {
		return nil, fmt.Errorf("take stdio: point stdout at stderr: %w", err)
	}
	os.Stdin, os.Stdout = null, os.Stderr

	var mode uint32
	return &Pair{
		In:       in,
		Out:      out,
		terminal: windows.GetConsoleMode(windows.Handle(in.Fd()), &mode) == nil,
	}, nil
}

// keepInherited does nothing: package os hands children the handles that it is
// told to and no others.
func keepInherited() {}
