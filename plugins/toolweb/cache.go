package toolweb

import (
	"sync"
	"time"
)

// cache keeps pages for a while. Only those that needed no secret are ever in it,
// so it serves all sessions.
type cache struct {
	keep time.Duration
	most int // bytes of all pages

	mu   sync.Mutex
	size int
	// order is oldest first.
	order []*kept
}

type kept struct {
	key   string
	page  *page
	until time.Time
}

// overhead is what a page takes beside its text, in bytes.
const overhead = 1 << 10

func (k *kept) bytes() int { return len(k.page.text) + len(k.key) + overhead }

// get gives the page of a URL; nil when there is none.
func (c *cache) get(key string) *page {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(time.Now())
	for _, k := range c.order {
		if k.key == key {
			return k.page
		}
	}
	return nil
}

// put keeps a page, in place of the one of the same URL and of the oldest where
// there is no room.
func (c *cache) put(key string, p *page) {
	now := time.Now()
	k := &kept{key, p, now.Add(c.keep)}
	if c.keep <= 0 || k.bytes() > c.most {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, old := range c.order {
		if old.key == key {
			c.drop(i)
			break
		}
	}
	c.expire(now)
	for len(c.order) > 0 && c.size+k.bytes() > c.most {
		c.drop(0)
	}
	c.order = append(c.order, k)
	c.size += k.bytes()
}

// expire drops what is too old, which is what came first.
func (c *cache) expire(now time.Time) {
	for len(c.order) > 0 && !now.Before(c.order[0].until) {
		c.drop(0)
	}
}

func (c *cache) drop(i int) {
	c.size -= c.order[i].bytes()
	copy(c.order[i:], c.order[i+1:])
	c.order[len(c.order)-1] = nil
	c.order = c.order[:len(c.order)-1]
}
