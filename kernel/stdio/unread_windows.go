//go:build windows

package stdio

// unread does not know: Windows tells only a writer.
func (p *Pair) unread() bool { return false }
