//go:build windows

package chatwire

// descriptors is how many files and connections the process may have open; 0
// when that is not known.
func descriptors() uint64 { return 0 }
