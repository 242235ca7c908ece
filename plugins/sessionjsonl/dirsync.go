package sessionjsonl

import (
	"context"
	"sync"
)

// dirSync shares syncs of one folder: one runs at a time, and all who come
// meanwhile are served by the next (performance rule 7).
type dirSync struct {
	do func() error

	mu      sync.Mutex
	tickets uint64 // given out
	done    uint64 // served
	running chan struct{}
}

// sync returns when the folder is on the disk as it was at the call.
func (d *dirSync) sync(ctx context.Context) error {
	d.mu.Lock()
	d.tickets++
	mine := d.tickets
	for d.done < mine {
		if running := d.running; running != nil {
			d.mu.Unlock()
			select {
			case <-running:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			d.mu.Lock()
			continue
		}
		covers := d.tickets
		running := make(chan struct{})
		d.running = running
		d.mu.Unlock()
		err := d.do()
		d.mu.Lock()
		d.running = nil
		close(running)
		if err != nil {
			d.mu.Unlock()
			return err
		}
		d.done = covers
	}
	d.mu.Unlock()
	return nil
}
