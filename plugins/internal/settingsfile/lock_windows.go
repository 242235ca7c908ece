//go:build windows

package settingsfile

// lock locks nothing: a folder cannot be locked on Windows.
func lock(string) (unlock func(), err error) { return func() {}, nil }
