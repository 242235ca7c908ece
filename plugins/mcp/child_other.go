//go:build !linux

package mcp

// waitUnreaped has nothing to wait with here; the group is ended right after
// the program has been waited for.
func waitUnreaped(int) bool { return false }

// left gives the program's process group as long as somebody is in it.
func (c *child) left() []int { return c.leftGroup() }
