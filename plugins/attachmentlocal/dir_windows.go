//go:build windows

package attachmentlocal

// syncDir has nothing to do: the file system keeps names in order by itself.
func syncDir(string) error { return nil }
