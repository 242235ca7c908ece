package permissions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/process"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// orderRules is behind the hooks of tool.OrderGate: they may refuse or replace
// what a call says, and rules see the outcome (spec stream-json 6.5).
const orderRules = tool.OrderGate + 50

// Gate judges every call. It is safe for use from any goroutine.
type Gate struct {
	params Params
	// now is what new turns run under. One that began before a reload keeps what
	// it had.
	now atomic.Pointer[edition]
	// stages owns the place in the pipeline of what is now.
	stages *kernel.Owner
	// home is looked up when the first call needs it.
	home func() string

	// changes counts those of the policy of sessions.
	changes atomic.Int64

	mu sync.Mutex
	// sessions holds root sessions that have something of their own.
	sessions map[string]*sessionState
	parsed   map[string]*layered
	// open are the questions that wait for an answer.
	open map[*question]struct{}
}

// edition is a config with what is made of it.
type edition struct {
	Config
	// pool are the rules of the profile, flags those that were given at the start.
	pool, flags Pool
	// open gives the folders that a preset opens beside the working directories, to
	// calls and to programs only.
	open func() (open, caches []string)
}

// New makes the gate; register puts it in front of the tools.
func New(p Params) (*Gate, error) {
	g := &Gate{params: p, sessions: map[string]*sessionState{}, parsed: map[string]*layered{}, open: map[*question]struct{}{}}
	g.home = sync.OnceValue(func() string {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		return home
	})
	e, err := g.edition(p.Config)
	if err != nil {
		return nil, err
	}
	g.now.Store(e)
	return g, nil
}

func (g *Gate) edition(c Config) (*edition, error) {
	pool, flags, err := c.pools()
	if err != nil {
		return nil, err
	}
	e := &edition{Config: c, pool: pool, flags: flags}
	e.open = sync.OnceValues(func() (open, caches []string) { return g.openFolders(c.Writable) })
	return e, nil
}

func (g *Gate) register() error {
	kernel.OnReload(g.params.Self, g.reload)
	if ready := g.params.Self.Ready; ready != nil {
		ready.Go("look whether programs can be confined", false, func(context.Context) error { return g.probe() })
	}
	g.stages = g.params.Self.Owner.Child("rules")
	return g.use(g.stages, g.now.Load())
}

// probe tells at the start that the machine cannot hold what the preset wants,
// rather than with the first command (case B102).
func (g *Gate) probe() error {
	e := g.now.Load()
	j := &Judge{Word: e.word(), CWD: g.params.Self.Home, NoNetwork: !e.Network, Strict: e.Strict}
	if g.params.Confiner != nil {
		j.Reach = g.params.Confiner.Probe
	}
	c := j.Confinement()
	if c == nil {
		return nil
	}
	switch r := j.reached(c); {
	case r.Level == process.ReachedFull:
	case e.Strict:
		return fmt.Errorf("programs have to be confined to %s and this machine cannot do it: %s; commands will be refused", c.Mode, r.Missing)
	default:
		g.params.Self.Log.Warn("programs cannot be confined as the preset wants; commands that are not known to be harmless are asked about",
			"preset", c.Mode, "reached", r.Level, "missing", r.Missing)
	}
	return nil
}

// use puts an edition in front of the tools.
func (g *Gate) use(o *kernel.Owner, e *edition) error {
	if err := g.params.Tools.HideFor(o, func(who tool.Viewer) func(tool.Tool) bool { return g.hides(e, who) }); err != nil {
		return err
	}
	return g.params.Pipeline.Use(o, orderRules, "permissions", func(ctx context.Context, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
		return g.stage(ctx, e, t, in, next)
	})
}

// hides says which tools the rules take away from a session as a whole (spec
// stream-json 7.3); nil when they take none.
func (g *Gate) hides(e *edition, who tool.Viewer) func(tool.Tool) bool {
	pools := []Pool{e.pool, e.flags}
	if who.SessionID != "" {
		root, _ := g.lineage(who.SessionID)
		s := g.peek(root)
		pools = []Pool{e.pool, s.flagsOr(e), s.rules}
	}
	if who.CWD != "" {
		pools = append(pools, g.layers(who.CWD).rules)
	}
	var bare Pool
	for _, p := range pools {
		for _, r := range p.Deny {
			if r.bare() {
				bare.Deny = append(bare.Deny, r)
			}
		}
	}
	if len(bare.Deny) == 0 {
		return nil
	}
	return func(t tool.Tool) bool { return bare.Hides(t.Spec()) }
}

// reload takes another config. What sessions were given stays.
func (g *Gate) reload(_ context.Context, c Config, next *kernel.Next) error {
	e, err := g.edition(c)
	if err != nil {
		return err
	}
	stages := next.Owner(g.params.Self.Owner, "rules", 0)
	if err := g.use(stages, e); err != nil {
		return err
	}
	next.Retire(g.stages)
	next.Commit(func() {
		g.stages = stages
		g.now.Store(e)
	})
	return nil
}

// openFolders gives the folders that preset workspace-write opens beside the
// working directories.
func (g *Gate) openFolders(writable []string) (open, caches []string) {
	open = append([]string{os.TempDir()}, writable...)
	add := func(dirs ...string) {
		for _, dir := range dirs {
			if filepath.IsAbs(dir) {
				caches = append(caches, dir)
			}
		}
	}
	if dir, err := os.UserCacheDir(); err == nil {
		add(dir)
	}
	add(os.Getenv("GOCACHE"), os.Getenv("GOMODCACHE"))
	home := g.home()
	if home == "" {
		return open, caches
	}
	add(filepath.Join(home, ".npm"))
	if os.Getenv("GOMODCACHE") == "" {
		for _, dir := range filepath.SplitList(cmp.Or(os.Getenv("GOPATH"), filepath.Join(home, "go"))) {
			add(filepath.Join(dir, "pkg", "mod"))
		}
	}
	return open, caches
}

// judge puts together all that a decision for a session depends on.
func (g *Gate) judge(e *edition, s sessionState, cwd string) *Judge {
	l := g.layers(cwd)
	open, caches := e.open()
	j := &Judge{
		Word: e.wordOf(s.word, l),
		CWD:  cwd, Dirs: slices.Concat(s.flagDirsOr(e), l.dirs, s.dirs),
		Open: open, Caches: caches,
		Home: g.home(), State: g.params.Self.Home, Protected: e.Protected,
		Unknown: l.unknown,
		Fold:    foldsCase(), NoNetwork: !e.Network, Strict: e.Strict,
	}
	if j.State != "" {
		j.Readable = []string{filepath.Join(j.State, "spill")}
	}
	if g.params.Confiner != nil {
		j.Reach = g.params.Confiner.Probe
	}
	for _, from := range []Pool{e.pool, s.flagsOr(e), l.rules, s.rules} {
		j.Rules.Deny = append(j.Rules.Deny, from.Deny...)
		j.Rules.Ask = append(j.Rules.Ask, from.Ask...)
		j.Rules.Allow = append(j.Rules.Allow, from.Allow...)
	}
	return j
}

// judgeOf is judge for a session that may be a delegated one.
func (g *Gate) judgeOf(e *edition, s sessionState, sessionID, cwd string) *Judge {
	j := g.judge(e, s, cwd)
	j.Word = g.delegatedWord(e, j.Word, sessionID, cwd)
	return j
}

// Judge implements approval.Policy.
func (g *Gate) Judge(spec tool.Spec, in tool.Invocation) approval.Verdict {
	root, _ := g.lineage(in.SessionID)
	return g.judgeOf(g.now.Load(), g.peek(root), in.SessionID, in.CWD).Decide(spec, in.Arguments)
}

// call is one call on its way through the gate.
type call struct {
	e     *edition
	t     tool.Tool
	spec  tool.Spec
	in    tool.Invocation
	root  string
	child bool
	j     *Judge
	// seen is the number of changes that the ruling takes into account.
	seen int64
	// never: no person is asked.
	never bool
}

// stage is the gate's place in the pipeline.
func (g *Gate) stage(ctx context.Context, e *edition, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
	if tool.IsUnknown(t) {
		return g.unknown(ctx, e, t, in, next)
	}
	c := &call{e: e, t: t, spec: t.Spec(), in: in, seen: g.changes.Load()}
	c.root, c.child = g.lineage(in.SessionID)
	own := g.begin(c.root, c.child, c.spec, in)
	c.j = g.judgeOf(e, own, in.SessionID, in.CWD)
	if err := g.tell(c.root, c.child, c.j.Word, own.told, in); err != nil {
		return tool.Result{}, err
	}
	r := c.j.rule(c.spec, in.Arguments, in.Advice)
	v := r.Verdict
	if err := g.record(in, c.spec, c.j.Word, v, nil); err != nil {
		return tool.Result{}, err
	}
	message, interrupt := v.Message, in.Advice.Interrupt && v.Scope == scopeHook
	if v.Behavior == approval.Ask {
		answer, err := g.ask(ctx, c, r)
		if err != nil {
			return tool.Result{}, err
		}
		message, interrupt = answer.message, answer.interrupt
		if answer.allowed {
			v.Behavior, v.Confinement = approval.Allow, v.Approved
			if answer.ruling != nil {
				v = answer.ruling.Verdict
			}
			if answer.arguments != nil {
				in.Arguments = answer.arguments
				var res *tool.Result
				if v, res, err = g.again(c, in, v); err != nil || res != nil {
					if res != nil && v.Behavior == approval.Deny {
						g.denied(in, c.spec.Name)
					}
					return orNone(res), err
				}
			}
		}
	}
	if v.Behavior != approval.Allow {
		g.denied(in, c.spec.Name)
		res := refused(message)
		if interrupt {
			g.interrupt(c, &res)
		}
		return res, nil
	}
	in.Confinement = v.Confinement
	in.Hidden = c.j.Hides()
	return next(ctx, t, in)
}

// unknown judges a call of a tool that the session does not have. In mode plan it
// counts as one that writes; else there is no decision about it (spec stream-json
// 7.3 rule 1, S073).
func (g *Gate) unknown(ctx context.Context, e *edition, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
	root, child := g.lineage(in.SessionID)
	spec := t.Spec()
	own := g.begin(root, child, spec, in)
	j := g.judgeOf(e, own, in.SessionID, in.CWD)
	if j.Word != ModePlan {
		return next(ctx, t, in)
	}
	v := j.planned(approval.Verdict{})
	if err := g.record(in, spec, j.Word, v, nil); err != nil {
		return tool.Result{}, err
	}
	g.denied(in, spec.Name)
	return refused(v.Message), nil
}

// interrupt ends the turn of a refused call as if the user had (spec stream-json
// 5.1). The call of a delegated session ends that of the root session, too.
func (g *Gate) interrupt(c *call, res *tool.Result) {
	res.EndTurn = &sdkproto.TurnEndReason{Kind: sdkproto.EndAborted, Reason: &sdkproto.AbortReason{Kind: sdkproto.AbortUser}}
	if !c.child || g.params.Agents == nil {
		return
	}
	if a, ok := g.params.Agents.Get(c.root); ok {
		a.Cancel(agent.Cause{Kind: sdkproto.AbortUser}, "")
	}
}

func orNone(res *tool.Result) tool.Result {
	if res == nil {
		return tool.Result{}
	}
	return *res
}

// refused is the result of a call that may not run. What it says is for the
// model (spec stream-json 7.7).
func refused(message string) tool.Result {
	return tool.ErrorResult("PermissionError", tool.CodePermissionDenied, message)
}

// begin notes the turn of a root session's call and gives the session's own
// policy. A session that has nothing of its own, and delegates to nobody, needs
// no state.
func (g *Gate) begin(root string, child bool, spec tool.Spec, in tool.Invocation) (s sessionState) {
	if child || familyOf(spec.Subject.Rule) != familyAgent && !g.known(root) {
		return g.peek(root)
	}
	g.with(root, func(state *sessionState) {
		state.turnBegan(in.Turn)
		s = *state
	})
	return s
}

func (g *Gate) known(root string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sessions[root] != nil
}

// tell records the preset of a root session when it is another than the log
// says; without a word the log means workspace-write, which is the usual one.
func (g *Gate) tell(root string, child bool, word, told string, in tool.Invocation) error {
	if child || in.Emit == nil || !isPreset(word) || word == cmp.Or(told, process.WorkspaceWrite) {
		return nil
	}
	g.with(root, func(s *sessionState) { told, s.told = s.told, word })
	if told == word {
		return nil // a call beside this one was quicker
	}
	if err := in.Emit(session.Draft{Type: sdkproto.TypePermissionPreset, Data: sdkproto.PermissionPreset{Preset: word}}); err != nil {
		return fmt.Errorf("record the preset: %w", err)
	}
	return nil
}

// record puts a decision into the log; word is the mode in force, replaced are
// arguments that take the place of the call's.
func (g *Gate) record(in tool.Invocation, spec tool.Spec, word string, v approval.Verdict, replaced json.RawMessage) error {
	if in.Emit == nil {
		return nil
	}
	d := sdkproto.PermissionDecision{
		CallID: in.CallID, ToolName: spec.Name, Behavior: v.Behavior, Reason: v.Reason, Rule: v.Rule, Scope: v.Scope, Arguments: replaced,
	}
	if v.Behavior == approval.Deny && v.ReasonType == approval.ReasonMode {
		d.Mode = word
	}
	if spec.Subject.Kind == tool.SubjectCommand && v.Confinement != nil {
		d.Confinement, d.Reached = v.Confinement.Mode, v.Reached.Level
	}
	if err := in.Emit(session.Draft{Type: sdkproto.TypePermissionDecision, Data: d, Ignorable: true}); err != nil {
		return fmt.Errorf("record the permission decision: %w", err)
	}
	return nil
}

// policy says whether anybody is asked for a session.
func (c *Config) policy(word string, child bool) string {
	switch {
	case child && c.Children != policyAsk:
		return policyNever
	case c.Approvals != "":
		return c.Approvals
	case word == process.FullAccess:
		return policyNever
	}
	return policyAsk
}

// again checks arguments that an answer put in the place of the call's: the
// schema and the deny rules hold for them, too. A result ends the call.
func (g *Gate) again(c *call, in tool.Invocation, before approval.Verdict) (approval.Verdict, *tool.Result, error) {
	if err := tool.CheckArguments(c.t, in.Arguments); err != nil {
		res := tool.ErrorResult("ToolArgumentsError", "INVALID_ARGUMENTS", fmt.Sprintf("Error: the arguments that were approved for %s are not valid: %v", c.spec.Name, err))
		return before, &res, nil
	}
	v := c.j.Decide(c.spec, in.Arguments)
	if v.Behavior == approval.Ask {
		// They are what somebody has just agreed to.
		v.Behavior, v.Confinement = approval.Allow, v.Approved
	}
	if err := g.record(in, c.spec, c.j.Word, v, in.Arguments); err != nil {
		return v, nil, err
	}
	if v.Behavior == approval.Deny {
		res := refused(v.Message)
		return v, &res, nil
	}
	return v, nil, nil
}

// confiner says how servers and plugins are confined.
type confiner struct{ g *Gate }

// Confinement implements process.Policy: what the preset of the config says.
func (c confiner) Confinement(cwd string) *process.Confinement {
	e := c.g.now.Load()
	j := c.g.judge(e, sessionState{}, cwd)
	j.Word = e.word()
	return j.Confinement()
}

// foldsCase reports whether file names on systems of this kind usually do not
// tell case.
func foldsCase() bool { return runtime.GOOS == "darwin" || runtime.GOOS == "windows" }
