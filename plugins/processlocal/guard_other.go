//go:build !linux

package processlocal

// guard is what ends programs when the harness was killed. Here nothing shows
// the environment of others, so there is none: such programs end when they next
// write to their closed output, if at all.
type guard struct{}

func startGuard(string, []string) (*guard, error) { return nil, nil }

func (*guard) dismiss() {}
