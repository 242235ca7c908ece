package toolsearch

import (
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// program is an expression as an automaton sees it: over bytes, and so that it
// passes all lines that match and few others. In it characters beyond ASCII are
// any run of bytes beyond ASCII, and the ends of words are everywhere. It does not
// change.
type program struct {
	insts []syntax.Inst
	start uint32
	// sets are what the instructions that take a character accept, by their place.
	sets []*runeSet
	// class gives the class of each byte; bytes of one class are accepted by the same
	// instructions. members are the bytes of each class.
	class   [256]uint8
	members [][]byte
}

// newProgram compiles an expression; nil for one that passes nearly everything or
// is too large.
func newProgram(re *syntax.Regexp) *program {
	compiled, err := syntax.Compile(re.Simplify())
	if err != nil || len(compiled.Inst) > maxInsts {
		return nil
	}
	p := &program{insts: compiled.Inst, start: uint32(compiled.Start), sets: make([]*runeSet, len(compiled.Inst))}
	var signatures [256][]byte
	for pc, in := range p.insts {
		var s runeSet
		switch in.Op {
		case syntax.InstRune, syntax.InstRune1:
			switch {
			case len(in.Rune) > 1:
				for i := 0; i < len(in.Rune); i += 2 {
					s.add(in.Rune[i], in.Rune[i+1])
				}
			case syntax.Flags(in.Arg)&syntax.FoldCase != 0:
				s.fold(in.Rune[0])
			default:
				s.add(in.Rune[0], in.Rune[0])
			}
		case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			s = anyRune()
		default:
			continue
		}
		p.sets[pc] = &s
		for b := range signatures {
			accepted := byte('-')
			if s.takes(byte(b)) {
				accepted = '+'
			}
			signatures[b] = append(signatures[b], accepted)
		}
	}
	// Line ends are classes of their own, and so is what goes on for some bytes.
	for b := utf8.RuneSelf; b < len(signatures); b++ {
		signatures[b] = append(signatures[b], '8')
	}
	signatures['\n'], signatures['\r'] = []byte{'\n'}, append(signatures['\r'], '\r')
	known := map[string]uint8{}
	for b, signature := range signatures {
		c, ok := known[string(signature)]
		if !ok {
			c = uint8(len(p.members))
			known[string(signature)] = c
			p.members = append(p.members, nil)
		}
		p.class[b] = c
		p.members[c] = append(p.members[c], byte(b))
	}
	if a := newAutomaton(p); a.states[0].passes || a.states[0].passesAtEnd {
		return nil
	}
	return p
}

const (
	// maxInsts bounds a program, maxStates what an automaton remembers of it: of each
	// state half a KiB.
	maxInsts  = 2000
	maxStates = 1000
)

// automaton runs a program over text, one step for each byte. It makes its states
// as it meets them, and belongs to one goroutine.
type automaton struct {
	program *program
	states  []state
	// next has 256 entries for each state.
	next  []uint16
	known map[string]uint16
	seen  []bool
	// full: there were too many states.
	full bool
}

// state is where a program may be at once.
type state struct {
	// at are the instructions that take a character or wait for a line end.
	at []uint32
	// passes: it matches; passesAtEnd: it does if the line ends here.
	passes, passesAtEnd bool
}

// Entries of automaton.next that are no states.
const (
	unknown = ^uint16(0) - iota
	passed
)

func newAutomaton(p *program) *automaton {
	a := &automaton{program: p, known: map[string]uint16{}, seen: make([]bool, len(p.insts))}
	var s state
	a.follow(&s, p.start, true, false)
	a.enter(s)
	return a
}

// from gives the first place at or behind pos, the start of a line, that belongs
// to a line that may match; the length of the block if there is none.
func (a *automaton) from(block []byte, pos int) int {
	if a.full {
		return pos
	}
	at := uint16(0)
	for i := pos; i < len(block); i++ {
		// Most bytes lead back to where they are met: a test for that depends on no
		// byte before, and so costs little.
		for row := a.next[int(at)<<8:][:256]; row[block[i]] == at; {
			if i++; i == len(block) {
				return a.atEnd(block, at)
			}
		}
		to := a.next[int(at)<<8|int(block[i])]
		if to >= passed {
			if to == unknown {
				to = a.step(at, block[i])
			}
			if to == passed || a.full {
				return i
			}
		}
		at = to
	}
	return a.atEnd(block, at)
}

// atEnd is from for the end of a block.
func (a *automaton) atEnd(block []byte, at uint16) int {
	if len(block) > 0 && block[len(block)-1] != '\n' && a.states[at].passesAtEnd {
		return len(block) - 1
	}
	return len(block)
}

// step finds what a byte leads to, and keeps it for all bytes of its class.
func (a *automaton) step(at uint16, b byte) uint16 {
	to := a.lead(&a.states[at], b)
	for _, other := range a.program.members[a.program.class[b]] {
		a.next[int(at)<<8|int(other)] = to
	}
	return to
}

func (a *automaton) lead(from *state, b byte) uint16 {
	switch {
	case (b == '\n' || b == '\r') && from.passesAtEnd:
		// A \r need not be the line's last. It is looked at all the same.
		return passed
	case b == '\n':
		return 0
	}
	var s state
	for _, pc := range from.at {
		if set := a.program.sets[pc]; set != nil && set.takes(b) {
			a.follow(&s, a.program.insts[pc].Out, false, false)
			if b >= utf8.RuneSelf {
				a.follow(&s, pc, false, false)
			}
		}
	}
	// A match may begin anywhere.
	a.follow(&s, a.program.start, false, false)
	return a.enter(s)
}

// follow adds what is reached from an instruction without a character.
func (a *automaton) follow(s *state, pc uint32, begin, end bool) {
	if a.seen[pc] {
		return
	}
	a.seen[pc] = true
	s.at = append(s.at, pc)
	switch in := &a.program.insts[pc]; in.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		a.follow(s, in.Out, begin, end)
		a.follow(s, in.Arg, begin, end)
	case syntax.InstCapture, syntax.InstNop:
		a.follow(s, in.Out, begin, end)
	case syntax.InstEmptyWidth:
		const begins, ends = syntax.EmptyBeginLine | syntax.EmptyBeginText, syntax.EmptyEndLine | syntax.EmptyEndText
		if op := syntax.EmptyOp(in.Arg); (op&begins == 0 || begin) && (op&ends == 0 || end) {
			a.follow(s, in.Out, begin, end)
		}
	case syntax.InstMatch:
		s.passes = true
	}
}

// enter gives the number of a state that follow has made.
func (a *automaton) enter(s state) uint16 {
	if s.passes && len(a.states) > 0 {
		a.forget(s.at)
		return passed
	}
	s.at = slices.DeleteFunc(s.at, func(pc uint32) bool {
		a.seen[pc] = false
		return a.program.sets[pc] == nil && a.program.insts[pc].Op != syntax.InstEmptyWidth
	})
	slices.Sort(s.at)
	key := make([]byte, 0, 2*len(s.at))
	for _, pc := range s.at {
		key = append(key, byte(pc), byte(pc>>8))
	}
	if n, ok := a.known[string(key)]; ok {
		return n
	}
	if len(a.states) == maxStates {
		a.full = true
		return 0
	}
	// The first state, at the start of a line, is never met again by its parts.
	if len(a.states) > 0 {
		a.known[string(key)] = uint16(len(a.states))
	}
	var end state
	for _, pc := range s.at {
		a.follow(&end, pc, len(a.states) == 0, true)
	}
	a.forget(end.at)
	s.passesAtEnd = end.passes
	a.states = append(a.states, s)
	for range 256 {
		a.next = append(a.next, unknown)
	}
	return uint16(len(a.states) - 1)
}

func (a *automaton) forget(pcs []uint32) {
	for _, pc := range pcs {
		a.seen[pc] = false
	}
}
