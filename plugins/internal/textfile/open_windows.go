//go:build windows

package textfile

// Opening a file does not wait on Windows.
const nonblock = 0
