package kernel

import (
	"slices"
	"sync"
)

// Generation counts the compositions of one process: 0 is what it started with,
// and each reload makes the next.
type Generation int64

// Now stands for the present generation wherever one is asked for.
const Now Generation = -1

// generations is the clock of an owner's tree, and counts what runs under each
// generation.
type generations struct {
	mu      sync.Mutex
	current Generation
	running map[Generation]int
	// left is closed and replaced when something that ran has ended.
	left chan struct{}
}

func newGenerations() *generations {
	return &generations{running: map[Generation]int{}, left: make(chan struct{})}
}

func (g *generations) now() Generation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.current
}

// Enter says that a piece of work, such as a turn, begins under the present
// generation: what a reload takes away goes only after leave has been called
// for all that began before. leave may be called more than once.
func (r *Root) Enter() (g Generation, leave func()) {
	clock := r.owner.clock
	clock.mu.Lock()
	defer clock.mu.Unlock()
	g = clock.current
	clock.running[g]++
	var once sync.Once
	return g, func() {
		once.Do(func() {
			clock.mu.Lock()
			defer clock.mu.Unlock()
			if clock.running[g]--; clock.running[g] == 0 {
				delete(clock.running, g)
			}
			close(clock.left)
			clock.left = make(chan struct{})
		})
	}
}

// LiveAt reports whether what the owner registered belongs to a generation: it
// was there and no reload had taken it away. Registries show only what is live.
func (o *Owner) LiveAt(g Generation) bool {
	if g == Now {
		g = o.clock.now()
	}
	for p := o; p != nil; p = p.parent {
		retired := Generation(p.retired.Load())
		if p.born > g || retired != 0 && g >= retired {
			return false
		}
	}
	return true
}

// clashes reports whether two owners may not hold the same name: there is a
// generation in which both are live.
func (o *Owner) clashes(other *Owner) bool {
	return o.LiveAt(max(o.born, other.born)) && other.LiveAt(max(o.born, other.born))
}

// Clash reports whether a name that taken holds cannot be given to o as well: a
// row that a reload replaces does not stand in the way of its successor.
func Clash(taken, o *Owner) bool { return taken.clashes(o) }

// Compare orders what owners registered by their rows' places in the profile,
// and inside a row by ChildAt, whenever it was registered. Owners that share
// their place are equal; a stable sort then keeps the order of registration.
func Compare(a, b *Owner) int { return slices.Compare(a.place, b.place) }
