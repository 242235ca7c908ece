package processlocal

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/process/group"
)

const (
	// quiescingGrace is the grace while the harness is ending (decision R13).
	quiescingGrace = 300 * time.Millisecond
	// killLimit is how long what was killed may take to go: it may be stuck in
	// the kernel.
	killLimit = time.Second
	// partingLimit is how long to look before a process that has closed the output
	// counts as one that stays: it may be about to end.
	partingLimit = 15 * time.Millisecond
)

// Runner starts programs on this machine. It implements process.Runner.
type Runner struct {
	self      kernel.Instance
	config    Config
	confiner  process.Confiner
	env       environment
	marker    string
	quiescing <-chan struct{}

	// first is done before the first program.
	first sync.Once
	// unconfined is done after the first that would have been confined if there was
	// a confiner.
	unconfined sync.Once
	guard      *group.Guard
	// running counts calls of Run, background the goroutines that may outlive them.
	running, background sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	sessions map[string]*owned
	numbers  int
	open     int
}

// owned is what belongs to one session, guarded by Runner.mu.
type owned struct {
	marker   string
	runs     int
	programs map[*program]bool
	// over: the session has ended, and takes no further programs.
	over bool
}

// program is a program that Run started, with whatever it started in turn.
type program struct {
	// group is the id of the process group and session that it began with.
	group   int
	marker  string
	reached process.Reached
	// outs are one output for both streams, or one for each.
	outs []*output
	// done is closed when the program itself has ended; state and err are set then.
	done  chan struct{}
	state *os.ProcessState
	// gone is set with done. From then on the system may give the group's number
	// to somebody else, but not before the group is empty.
	gone atomic.Bool
	// ended: it was ended from outside of its call.
	ended atomic.Bool
	// known are the start times of those that outlived the call, by process id;
	// nil while the call lasts. A group without any of them is not ours any more.
	known atomic.Pointer[map[int]uint64]
}

// survivor is a living process.
type survivor struct {
	pid, group, session int
	// start is the time it started, in ticks since the system did.
	start uint64
}

// New makes the runner.
func New(p Params) (*Runner, error) {
	return &Runner{
		self:      p.Self,
		config:    p.Config,
		confiner:  p.Confiner,
		marker:    rand.Text(),
		quiescing: p.Self.Root.Quiescing(),
		sessions:  map[string]*owned{},
	}, nil
}

func (r *Runner) register() error { return r.self.Owner.OnClose("programs of tools", r.close) }

// Run implements process.Runner.
func (r *Runner) Run(ctx context.Context, c process.Command) (process.Exit, error) {
	s, marker, err := r.enter(c.SessionID)
	if err != nil {
		return process.Exit{}, fmt.Errorf("start %s: %w", c.Path, err)
	}
	defer r.running.Done()
	p, err := r.start(ctx, c, marker)
	if err != nil {
		return process.Exit{}, fmt.Errorf("start %s: %w", c.Path, err)
	}
	r.keep(s, p)
	if c.Started != nil {
		c.Started()
	}
	exit := r.wait(ctx, c.Timeout, p)
	cut := exit.TimedOut || exit.Cancelled
	if cut {
		r.end(context.Background(), func() []survivor { return find([]*program{p}, "") })
		select {
		case <-p.done:
		case <-time.After(killLimit):
		}
	}
	exit.Left = r.leave(s, p, p.settle(), cut)
	exit.Cancelled = exit.Cancelled || !exit.TimedOut && p.ended.Load()
	exit.Code = -1
	if p.gone.Load() {
		exit.Code, exit.Signal = p.state.ExitCode(), signalName(p.state)
	}
	exit.Reached = p.reached
	return exit, nil
}

// enter opens a session's account, and counts a running call when it succeeds.
// marker is for the environment of the call's program.
func (r *Runner) enter(session string) (s *owned, marker string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, "", errors.New("the harness is ending")
	}
	s = r.sessions[session]
	if s == nil {
		r.numbers++
		s = &owned{marker: r.marker + "." + strconv.Itoa(r.numbers) + ".", programs: map[*program]bool{}}
		r.sessions[session] = s
	}
	s.runs++
	r.running.Add(1)
	return s, s.marker + strconv.Itoa(s.runs) + ".", nil
}

// start starts the program and the goroutines that watch it.
func (r *Runner) start(ctx context.Context, c process.Command, marker string) (*program, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c.Dir == "" {
		return nil, errors.New("no working directory is given")
	}
	var far pipes
	defer far.close()
	var near pipes
	ours, theirs, err := far.open(&near)
	if err != nil {
		return nil, err
	}
	// Standard error has a pipe of its own only when somebody wants it apart.
	oursToo, theirsToo := ours, theirs
	if c.Errors != nil {
		if oursToo, theirsToo, err = far.open(&near); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(c.Path, c.Args...)
	// A nil Stdin is the null device, opened for this program alone.
	var feed *os.File
	if c.Input != nil {
		source, sink, err := os.Pipe()
		if err != nil {
			near.close()
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		far, near, feed = append(far, source), append(near, sink), sink
		cmd.Stdin = source
	}
	r.first.Do(r.prepare)
	cmd.Dir = c.Dir
	cmd.Env = slices.Concat(r.env.get(r.self.CredentialEnv.Names()), []string{"PWD=" + c.Dir}, c.Env, []string{markerVariable + "=" + markerValue(marker)})
	cmd.Stdout, cmd.Stderr = theirs, theirsToo
	cmd.SysProcAttr = group.Apart()
	reached, err := process.Start(r.confiner, cmd, c.Confinement)
	if err != nil {
		near.close()
		// The system names the program, even when it is the directory that is missing.
		if info, dirErr := os.Stat(c.Dir); dirErr != nil {
			return nil, fmt.Errorf("working directory: %w", dirErr)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("working directory: %s is not a directory", c.Dir)
		}
		return nil, err
	}
	if r.confiner == nil && reached.Missing != "" {
		r.unconfined.Do(func() {
			r.self.Log.Warn("programs run unconfined although confinement was asked for", "missing", reached.Missing)
		})
	}
	p := &program{group: cmd.Process.Pid, marker: marker, reached: reached, outs: []*output{newOutput(ours, c.Output)}, done: make(chan struct{})}
	if c.Errors != nil {
		p.outs = append(p.outs, newOutput(oursToo, c.Errors))
	}
	for _, o := range p.outs {
		r.background.Go(o.read)
	}
	if feed != nil {
		r.background.Go(func() {
			// A program that does not read, or has ended, has had enough.
			_, _ = feed.Write(c.Input)
			feed.Close()
		})
	}
	r.background.Go(func() {
		// The error says again what the state says.
		_ = cmd.Wait()
		p.state = cmd.ProcessState
		p.gone.Store(true)
		close(p.done)
		if feed != nil {
			feed.Close() // somebody it started may hold the other end, and not read
		}
	})
	return p, nil
}

// pipes are ends of pipes.
type pipes []*os.File

// open makes a pipe of which the end to write to is one of far, and the end to
// read from one of near. On an error both are closed.
func (far *pipes) open(near *pipes) (r, w *os.File, err error) {
	r, w, err = os.Pipe()
	if err != nil {
		near.close()
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	*far, *near = append(*far, w), append(*near, r)
	return r, w, nil
}

func (p *pipes) close() {
	for _, f := range *p {
		f.Close()
	}
}

// settle takes what is left of a program that has ended, and says whether
// somebody still holds an output.
func (p *program) settle() (open bool) {
	for _, o := range p.outs {
		open = o.settle() || open
	}
	return open
}

// closed says whether nobody holds an output any more.
func (p *program) closed() bool {
	return !slices.ContainsFunc(p.outs, func(o *output) bool { return !o.closed() })
}

// stop closes our ends of the outputs.
func (p *program) stop() {
	for _, o := range p.outs {
		o.stop()
	}
}

// prepare does what need not be done in a harness that never starts a program.
func (r *Runner) prepare() {
	if !group.Visible {
		return // a guard would not find them
	}
	var err error
	if r.guard, err = group.StartGuard(r.marker, r.env.get(r.self.CredentialEnv.Names())); err != nil {
		r.self.Log.Warn("no guard: if the harness is killed, programs of tools may be left running", "error", err)
	}
}

// keep puts a program on its session's account.
func (r *Runner) keep(s *owned, p *program) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.over {
		p.ended.Store(true)
		group.Signal(p.group, true)
		return
	}
	s.programs[p] = true
}

// wait waits for the program, its timeout, or somebody who wants it ended.
func (r *Runner) wait(ctx context.Context, limit time.Duration, p *program) (exit process.Exit) {
	var timeout <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-p.done:
		return exit
	case <-timeout:
		exit.TimedOut = true
	case <-ctx.Done():
		exit.Cancelled = true
	case <-r.self.Owner.Context().Done():
		exit.Cancelled = true
	}
	select {
	case <-p.done: // it ended at the same moment
		return process.Exit{}
	default:
		return exit
	}
}

// leave counts what outlives the call and keeps it for the end of the session.
// In the usual case, nobody there and the output closed, it costs one system
// call: a process that left the group and closed its output is found only at
// the end of the session, or when the call was cut short.
func (r *Runner) leave(s *owned, p *program, open, cut bool) int {
	if !open && !cut && !group.Exists(p.group) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(s.programs, p)
		return 0
	}
	left := find([]*program{p}, p.marker)
	for pause := time.Millisecond; len(left) > 0 && !open && pause < partingLimit; pause *= 2 {
		time.Sleep(pause)
		left = find([]*program{p}, p.marker)
	}
	adopt(p)
	known := make(map[int]uint64, len(left))
	for _, v := range left {
		known[v.pid] = v.start
	}
	p.known.Store(&known)
	r.prune(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	if open && (s.over || r.open >= r.config.MaxOpen) {
		p.stop()
	} else if open {
		r.open++
		r.background.Go(func() {
			for _, o := range p.outs {
				<-o.eof
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.open--
		})
	}
	return len(left)
}

// prune forgets programs of which nothing is left, so that a session that
// starts many holds few.
func (r *Runner) prune(s *owned) {
	var quiet []*program
	r.mu.Lock()
	for p := range s.programs {
		if p.known.Load() != nil && p.closed() {
			quiet = append(quiet, p)
		}
	}
	r.mu.Unlock()
	if len(quiet) == 0 {
		return
	}
	alive := map[int]bool{}
	for _, v := range find(quiet, "") {
		alive[v.group], alive[v.session] = true, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range quiet {
		if adopt(p); !alive[p.group] {
			delete(s.programs, p)
		}
	}
}

// EndSession implements process.Runner.
func (r *Runner) EndSession(ctx context.Context, session string) error {
	r.mu.Lock()
	s := r.sessions[session]
	delete(r.sessions, session)
	programs := s.finish()
	r.mu.Unlock()
	if s == nil {
		return nil
	}
	if err := r.endOwned(ctx, s.marker, programs); err != nil {
		return fmt.Errorf("end the programs of session %s: %w", session, err)
	}
	return nil
}

func (s *owned) finish() []*program {
	if s == nil {
		return nil
	}
	s.over = true
	return slices.Collect(maps.Keys(s.programs))
}

// close ends everything of every session.
func (r *Runner) close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	var programs []*program
	for _, s := range r.sessions {
		programs = append(programs, s.finish()...)
	}
	used := r.numbers > 0
	clear(r.sessions)
	r.mu.Unlock()
	if !used {
		return nil
	}
	err := r.endOwned(ctx, r.marker+".", programs)
	idle := make(chan struct{})
	go func() {
		r.running.Wait()
		r.background.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		r.guard.Dismiss()
		return err
	case <-ctx.Done():
		// The guard stays, and ends them when this process has ended.
		return errors.Join(err, fmt.Errorf("wait for programs: %w", context.Cause(ctx)))
	}
}

// endOwned ends programs and whatever carries the marker.
func (r *Runner) endOwned(ctx context.Context, marker string, programs []*program) error {
	for _, p := range programs {
		select {
		case <-p.done:
		default:
			p.ended.Store(true)
		}
	}
	left := r.end(ctx, func() []survivor { return find(programs, marker) })
	for _, p := range programs {
		adopt(p)
		p.stop()
	}
	if len(left) == 0 {
		return nil
	}
	pids := make([]int, len(left))
	for i, v := range left {
		pids[i] = v.pid
	}
	return fmt.Errorf("%d processes are still there after KILL: %v", len(left), pids)
}

// end ends all that find finds: TERM, a wait, KILL. It returns what is left
// then.
func (r *Runner) end(ctx context.Context, find func() []survivor) []survivor {
	left := find()
	if len(left) == 0 {
		return nil
	}
	signalGroups(left, false)
	grace := time.Duration(r.config.GraceMs) * time.Millisecond
	if deadline, ok := ctx.Deadline(); ok {
		// The other half is for KILL to take effect.
		grace = max(0, min(grace, time.Until(deadline)/2))
	}
	begin := time.Now()
	killAt, quiescing := begin.Add(grace), r.quiescing
	killed := false
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-quiescing:
			quiescing = nil
			if at := time.Now().Add(quiescingGrace); at.Before(killAt) {
				killAt = at
			}
		case <-ctx.Done():
			signalGroups(left, true)
			return find()
		case <-time.After(pause):
		}
		if left = find(); len(left) == 0 {
			return nil
		}
		now := time.Now()
		switch {
		case killed && now.After(killAt.Add(killLimit)):
			return left
		case killed || !now.Before(killAt):
			if !killed {
				killed, pause = true, time.Millisecond
			}
			signalGroups(left, true)
		}
	}
}

func signalGroups(left []survivor, kill bool) {
	groups := make([]int, len(left))
	for i, s := range left {
		groups[i] = s.group
	}
	slices.SortFunc(groups, cmp.Compare)
	for _, g := range slices.Compact(groups) {
		group.Signal(g, kill)
	}
}
