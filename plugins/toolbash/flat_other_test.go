//go:build unix && !linux

package toolbash

import "testing"

// wantFlat has no peak to look at here.
func wantFlat(*testing.T) {}

// guards is the number of processes that the runner itself has here.
const guards = 0
