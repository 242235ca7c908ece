package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// figure is one measurement; it may fill several columns of the table.
type figure struct {
	name string
	rows []row
	// run measures the target once and gives a value for each row.
	run func(*target) ([]float64, error)
	// once says that a single run is enough, and floor that the program that does
	// nothing takes part. own says that only dsh does, and both that dcl does, too.
	once, floor, own, both bool
}

// row is one line of the table.
type row struct{ title, unit, aim string }

// bench collects figures.
type bench struct {
	targets  []*target
	runs     int
	progress io.Writer
	lines    []line
}

type line struct {
	row
	values []string // one a target, "–" where it does not take part
}

func (b *bench) measure(f figure) error {
	runs := b.runs
	if f.once {
		runs = 1
	}
	fmt.Fprintf(b.progress, "%s, %d runs\n", f.name, runs)
	samples := make([][][]float64, len(b.targets)) // target, row, run
	for n := range runs + 1 {
		for i, t := range b.targets {
			if t.nothing && !f.floor || f.own && !t.own || t.stream && !f.both {
				continue
			}
			values, err := f.run(t)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			if n == 0 && !f.once {
				continue // the first run warms up
			}
			if samples[i] == nil {
				samples[i] = make([][]float64, len(f.rows))
			}
			for r, v := range values {
				samples[i][r] = append(samples[i][r], v)
			}
		}
		if f.once {
			break
		}
	}
	for r := range f.rows {
		l := line{row: f.rows[r]}
		for i := range b.targets {
			if samples[i] == nil {
				l.values = append(l.values, "–")
				continue
			}
			l.values = append(l.values, spread(samples[i][r]))
		}
		b.lines = append(b.lines, l)
	}
	return nil
}

// spread is the median, with the least and the most where there are several.
func spread(values []float64) string {
	slices.Sort(values)
	median := number(values[len(values)/2])
	if len(values) == 1 {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, number(values[0]), number(values[len(values)-1]))
}

func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (b *bench) table(w io.Writer) {
	head, rule := "| figure | unit | aim |", "|---|---|---|"
	for _, t := range b.targets {
		head += " " + t.name + " |"
		rule += "---|"
	}
	fmt.Fprintf(w, "%s\n%s\n", head, rule)
	for _, l := range b.lines {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", l.title, l.unit, l.aim, strings.Join(l.values, " | "))
	}
}

func figureNames() []string {
	var names []string
	for _, f := range figures(true) {
		names = append(names, f.name)
	}
	return names
}

func figures(long bool) []figure {
	all := []figure{
		{name: "start", floor: true, both: true, run: start, rows: []row{
			{"start to the answer of `initialize`", "ms", "≤ 12, dcl ≤ 15"},
			{"peak memory after it", "MiB", "≤ 24, dcl ≤ 28"},
		}},
		{name: "mcp10", own: true, run: startMCP(10), rows: []row{{"start with 10 MCP servers of 300 ms each", "ms", "≤ 500"}}},
		{name: "plugins5", own: true, run: startPlugins(5), rows: []row{{"start with 5 plugins of 300 ms each", "ms", "≤ 500"}}},
		{name: "oneshot", floor: true, both: true, run: oneShot, rows: []row{
			{"one turn, start to exit", "ms", "≤ 20, dcl ≤ 25"},
			{"its processor time", "ms", "≤ 20"},
		}},
		{name: "turns", floor: true, both: true, run: turns, rows: []row{
			{"a turn, no model delay", "ms", "≤ 1.6, dcl ≤ 1.8"},
			{"a turn with a read call", "ms", "≤ 3.1, dcl ≤ 3.8"},
			{"a turn with a shell call", "ms", "≤ 5.6, dcl ≤ 6.3"},
			{"memory after 20 turns", "MiB", "≤ 28"},
		}},
		{name: "stream", both: true, run: stream, rows: []row{
			{"20,000 chunks, each one a line", "ms", "dcl ≤ 80 more than the model takes"},
			{"their processor time", "ms", "≤ 150, dcl ≤ 200"},
			{"peak memory after them", "MiB", "≤ 40"},
		}},
		{name: "sessions", run: sessions(100), rows: sessionRows(100, "≤ 600", "≤ 40", "")},
		{name: "sessions2000", run: sessions(2000), rows: sessionRows(2000, "≤ 2500", "≤ 160", "≤ 64")},
		{name: "session", run: perSession, rows: []row{
			{"memory of a session with a request open", "KiB", "≤ 64"},
			{"memory of an idle session", "KiB", "≤ 12"},
		}},
		{name: "size", once: true, floor: true, both: true, run: size, rows: []row{{"binary", "MB", "≤ 30"}}},
	}
	if long {
		all = append(all,
			figure{name: "sessions10000", once: true, run: sessions(10000), rows: sessionRows(10000, "≤ 12000", "≤ 450", "")},
			figure{name: "soak", once: true, own: true, run: soak, rows: []row{
				{"turns in ten minutes, one after the other", "", ""},
				{"memory after the first minute of them", "MiB", ""},
				{"open files then", "", ""},
				{"memory at their end", "MiB", "as before"},
				{"open files then", "", "as before"},
			}})
	}
	return all
}

func sessionRows(n int, wall, peak, quiet string) []row {
	return []row{
		{fmt.Sprintf("%d sessions at once, model of 500 ms", n), "ms", wall},
		{"peak memory of it", "MiB", peak},
		{"memory 3 s later", "MiB", quiet},
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func start(t *target) ([]float64, error) {
	begin := time.Now()
	p, err := t.initialized()
	if err != nil {
		return nil, err
	}
	took := ms(time.Since(begin))
	peak, err := p.memory("VmHWM")
	if err != nil {
		return nil, err
	}
	return []float64{took, peak}, p.end()
}

func oneShot(t *target) ([]float64, error) {
	begin := time.Now()
	p, err := t.initialized()
	if err != nil {
		return nil, err
	}
	if err := p.turn("s", "bench"); err != nil {
		return nil, err
	}
	if err := p.shutdown(); err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	return []float64{ms(time.Since(begin)), ms(p.used())}, nil
}

func turns(t *target) ([]float64, error) {
	p, err := t.initialized()
	if err != nil {
		return nil, err
	}
	const n = 20
	var values []float64
	for _, text := range []string{"bench", "bench read", "bench shell"} {
		// A session's first turn is not like the others.
		if err := p.turn(text, text); err != nil {
			return nil, err
		}
		samples := make([]float64, n)
		for i := range samples {
			begin := time.Now()
			if err := p.turn(text, text); err != nil {
				return nil, err
			}
			samples[i] = ms(time.Since(begin))
		}
		slices.Sort(samples)
		values = append(values, samples[n/2])
	}
	memory, err := p.memory("VmRSS")
	if err != nil {
		return nil, err
	}
	return append(values, memory), p.end()
}

func stream(t *target) ([]float64, error) {
	p, err := t.initialized()
	if err != nil {
		return nil, err
	}
	before, err := p.running()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := p.turn("s", "bench stream"); err != nil {
		return nil, err
	}
	took := ms(time.Since(begin))
	after, err := p.running()
	if err != nil {
		return nil, err
	}
	peak, err := p.memory("VmHWM")
	if err != nil {
		return nil, err
	}
	return []float64{took, ms(after - before), peak}, p.end()
}

func sessions(n int) func(*target) ([]float64, error) {
	return func(t *target) ([]float64, error) {
		p, err := t.initialized()
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		sent := make(chan error, 1)
		go func() { sent <- p.promptAll(n, "bench wait") }()
		err = p.untilIdle(n)
		if err := firstError(<-sent, err); err != nil {
			return nil, err
		}
		took := ms(time.Since(begin))
		peak, err := p.memory("VmHWM")
		if err != nil {
			return nil, err
		}
		time.Sleep(3 * time.Second)
		quiet, err := p.memory("VmRSS")
		if err != nil {
			return nil, err
		}
		return []float64{took, peak, quiet}, p.end()
	}
}

func (p *process) promptAll(n int, text string) error {
	for i := range n {
		if err := p.prompt(sessionID(i), text); err != nil {
			return err
		}
	}
	return nil
}

// perSession compares the memory of a process with none and with a thousand
// sessions.
func perSession(t *target) ([]float64, error) {
	const n = 1000
	open, err := t.growth(n, "bench hold", func(p *process) error {
		// Each session's request is open once its context event has come.
		return p.until(n, []byte(`"request/context"`))
	})
	if err != nil {
		return nil, err
	}
	idle, err := t.growth(n, "bench", func(p *process) error { return p.untilIdle(n) })
	if err != nil {
		return nil, err
	}
	return []float64{open, idle}, nil
}

// growth is what each of n sessions adds to the resident memory, in KiB, once
// the process has been left alone for a while.
func (t *target) growth(n int, text string, wait func(*process) error) (float64, error) {
	p, err := t.initialized()
	if err != nil {
		return 0, err
	}
	if err := p.turn("warm", "bench"); err != nil {
		return 0, err
	}
	before, err := p.memory("VmRSS")
	if err != nil {
		return 0, err
	}
	sent := make(chan error, 1)
	go func() { sent <- p.promptAll(n, text) }()
	err = wait(p)
	if err := firstError(<-sent, err); err != nil {
		return 0, err
	}
	time.Sleep(3 * time.Second)
	after, err := p.memory("VmRSS")
	if err != nil {
		return 0, err
	}
	return (after - before) * 1024 / float64(n), p.end()
}

func size(t *target) ([]float64, error) {
	info, err := os.Stat(t.command[0])
	if err != nil {
		return nil, err
	}
	return []float64{float64(info.Size()) / 1e6}, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
