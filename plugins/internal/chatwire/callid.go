package chatwire

import (
	"crypto/sha256"
	"strconv"
)

// maxCallID is how many letters and digits a hash has for an id.
const maxCallID = sha256.Size

// callID gives an id that the endpoint takes: the same for the same id, always.
func (d *Dialect) callID(id string) string {
	if d.CallIDs == nil || d.CallIDs(id) {
		return id
	}
	return hashID(id, d.CallIDLength)
}

// hashID gives n letters and digits for an id.
func hashID(id string, n int) string {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(id))
	out := make([]byte, 0, maxCallID)
	for _, b := range sum[:min(max(n, 0), maxCallID)] {
		out = append(out, alphabet[int(b)%len(alphabet)])
	}
	return string(out)
}

// callIDs gives every call of a request an id of its own: models repeat theirs,
// and endpoints refuse that. What an id becomes depends on the messages before
// it only.
type callIDs struct {
	// form makes an id that the endpoint takes of any other, always the same.
	form  func(string) string
	taken map[string]bool
	// next is the number to try for another call of the same id.
	next map[string]int
	// waiting holds the ids given to calls that have no result yet, by the id in
	// the history, oldest first.
	waiting map[string][]string
}

func (c *callIDs) call(id string) string {
	if c.taken == nil {
		c.taken, c.next, c.waiting = map[string]bool{}, map[string]int{}, map[string][]string{}
	}
	base := id
	if base == "" {
		base = "call"
	}
	given := c.form(base)
	for c.taken[given] {
		n := max(2, c.next[base])
		c.next[base] = n + 1
		given = c.form(base + "_" + strconv.Itoa(n))
	}
	c.taken[given] = true
	c.waiting[id] = append(c.waiting[id], given)
	return given
}

func (c *callIDs) result(id string) string {
	waiting := c.waiting[id]
	if len(waiting) == 0 {
		return c.form(id)
	}
	c.waiting[id] = waiting[1:]
	return waiting[0]
}
