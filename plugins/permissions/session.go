package permissions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
)

var _ approval.Steady = (*Gate)(nil)

// scopeSession is the scope of rules that a session was given.
const scopeSession = "session"

// sessionState is what the policy of one root session has beside the config.
type sessionState struct {
	// word is the mode or preset that was put in force, "" for the config's. before
	// is the one that mode plan took the place of, "" for none.
	word, before string
	rules        Pool
	dirs         []string
	// flags and flagDirs take the place of what the config says about rules and
	// folders of scope cliArg; nil leaves it.
	flags    *Pool
	flagDirs *[]string
	// told is the preset that the log has as the session's, "" for none.
	told string
	// turn is the number of the latest turn, and denials are its.
	turn    int
	denials []approval.Denial
}

func (s *sessionState) flagsOr(e *edition) Pool {
	if s.flags != nil {
		return *s.flags
	}
	return e.flags
}

func (s *sessionState) flagDirsOr(e *edition) []string {
	if s.flagDirs != nil {
		return *s.flagDirs
	}
	return e.AdditionalDirectories
}

// maxDenials bounds what is kept of one turn.
const maxDenials = 10_000

// maxAncestors bounds the way to the root: a session cannot be its own ancestor,
// but records may be broken.
const maxAncestors = 64

// lineage gives the id of the session at the root, and whether the session is a
// delegated one.
func (g *Gate) lineage(id string) (root string, child bool) {
	if g.params.Agents == nil {
		return id, false
	}
	for range maxAncestors {
		a, ok := g.params.Agents.Get(id)
		if !ok || a.Spec().Parent == "" {
			break
		}
		id, child = a.Spec().Parent, true
	}
	return id, child
}

// with runs f on the state of a root session, under the lock. A state goes when
// its session is closed.
func (g *Gate) with(root string, f func(*sessionState)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sessions[root]
	if s == nil {
		s = &sessionState{}
		g.sessions[root] = s
		if g.params.Agents != nil {
			if a, ok := g.params.Agents.Get(root); ok {
				context.AfterFunc(a.Life(), func() { g.forget(root, s) })
			}
		}
	}
	f(s)
}

func (g *Gate) forget(root string, s *sessionState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sessions[root] == s {
		delete(g.sessions, root)
	}
}

// peek gives a copy of what the policy of a root session is.
func (g *Gate) peek(root string) (s sessionState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if found := g.sessions[root]; found != nil {
		s = *found
	}
	return s
}

// Mode implements approval.Policy.
func (g *Gate) Mode(sessionID, cwd string) string {
	root, _ := g.lineage(sessionID)
	e := g.now.Load()
	return g.delegatedWord(e, e.wordOf(g.peek(root).word, g.layers(cwd)), sessionID, cwd)
}

// delegatedWord is the word of a session when root is that of the session at the
// root. Definitions of agents may name modes, but none widens what a mode other
// than default gives: bypassPermissions and acceptEdits of the parent win (spec
// stream-json 7.3), and so do plan and dontAsk, which a call could else get around
// by delegating.
func (g *Gate) delegatedWord(e *edition, root, sessionID, cwd string) string {
	if g.params.Agents == nil || g.params.Definitions == nil || root != ModeDefault {
		return root
	}
	word := root
	for range maxAncestors {
		a, ok := g.params.Agents.Get(sessionID)
		if !ok || a.Spec().Parent == "" {
			break
		}
		spec := a.Spec()
		d, ok := g.params.Definitions.Lookup(spec.Type)
		mode := plainMode(d.PermissionMode)
		if ok && mode != ModeDefault && slices.Contains(modes(), mode) && g.grants(e, d, mode, cwd) {
			word = mode // the one nearest to the root is looked at last, and wins
		}
		sessionID = spec.Parent
	}
	return word
}

// grants reports whether a definition may put a mode in force: what comes with a
// checkout or a plugin does not switch the questions off.
func (g *Gate) grants(e *edition, d agent.Definition, mode, cwd string) bool {
	return mode != ModeBypass || d.Source != "project" && d.Source != "plugin" && !e.DisableBypass && !g.layers(cwd).noBypass
}

// plainMode gives the name of a mode that has two.
func plainMode(mode string) string {
	if mode == "manual" {
		return ModeDefault
	}
	return mode
}

// wordOf gives the word in force. A session's own goes first; the settings of
// the user count only where the config says default.
func (c *Config) wordOf(session string, l *layered) string {
	word := c.word()
	if l.word != "" && word == ModeDefault {
		word = l.word
	}
	if session != "" {
		word = session
	}
	if word == ModeBypass && (l.noBypass || c.DisableBypass) {
		return ModeDefault
	}
	return word
}

// SetMode implements approval.Policy.
func (g *Gate) SetMode(sessionID, cwd, mode string) error {
	mode = plainMode(mode)
	if err := g.checkWord(mode, cwd); err != nil {
		return err
	}
	root, _ := g.lineage(sessionID)
	now := g.rootWord(root, cwd)
	g.with(root, func(s *sessionState) { s.turnTo(mode, now) })
	if mode == ModeBypass {
		g.changed(root)
		return nil
	}
	// A question that somebody is thinking about stays theirs to answer; what is not
	// asked yet is judged anew (spec stream-json 4.4).
	g.changes.Add(1)
	return nil
}

// CheckMode implements approval.Steady.
func (g *Gate) CheckMode(cwd, mode string) error { return g.checkWord(plainMode(mode), cwd) }

// Inherit implements approval.Steady. Lists are shared, because they are replaced
// and never changed.
func (g *Gate) Inherit(from, to string) {
	old := g.peek(from)
	g.with(to, func(s *sessionState) {
		s.word, s.before, s.rules, s.dirs, s.flags, s.flagDirs = old.word, old.before, old.rules, old.dirs, old.flags, old.flagDirs
	})
	g.changes.Add(1)
}

// rootWord is the word in force for a root session.
func (g *Gate) rootWord(root, cwd string) string {
	return g.now.Load().wordOf(g.peek(root).word, g.layers(cwd))
}

// turnTo puts a word in force in place of the one that is now.
func (s *sessionState) turnTo(word, now string) {
	switch {
	case word != ModePlan:
		s.before = ""
	case now != ModePlan:
		s.before = now
	}
	s.word = word
}

// ModeBeforePlan implements approval.Policy.
func (g *Gate) ModeBeforePlan(sessionID, cwd string) string {
	root, _ := g.lineage(sessionID)
	before := g.peek(root).before
	if before == "" || g.checkWord(before, cwd) != nil {
		return ModeDefault
	}
	return before
}

// checkWord refuses a word that is unknown or forbidden. A config that names a
// mode knows no presets (S043); bypassPermissions needs no consent at the start
// (spec stream-json D12).
func (g *Gate) checkWord(mode, cwd string) error {
	e := g.now.Load()
	known := words()
	if !isPreset(e.word()) {
		known = modes()
	}
	switch {
	case !slices.Contains(known, mode):
		return fmt.Errorf("there is no permission mode %q; use one of %s", mode, strings.Join(known, ", "))
	case mode != ModeBypass:
	case e.DisableBypass:
		return errors.New("permission mode bypassPermissions is forbidden by disableBypass of the profile")
	case g.layers(cwd).noBypass:
		return errors.New("permission mode bypassPermissions is forbidden by disableBypassPermissionsMode of the settings")
	}
	return nil
}

func (p *Pool) of(behavior string) *[]*Rule {
	switch behavior {
	case approval.Deny:
		return &p.Deny
	case approval.Ask:
		return &p.Ask
	}
	return &p.Allow
}

// turnBegan notes the turn of a root session's call; what the turn before
// refused goes.
func (s *sessionState) turnBegan(turn int) {
	if turn != s.turn {
		s.turn, s.denials = turn, nil
	}
}

// Denials implements approval.Policy.
func (g *Gate) Denials(sessionID string, turn int) []approval.Denial {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.sessions[sessionID]; s != nil && s.turn == turn {
		return slices.Clone(s.denials)
	}
	return nil
}

// denied records a refused call, once, with what the model asked for.
func (g *Gate) denied(in tool.Invocation, name string) {
	input := in.Requested
	if input == nil {
		input = in.Arguments
	}
	root, child := g.lineage(in.SessionID)
	g.with(root, func(s *sessionState) {
		if !child {
			s.turnBegan(in.Turn)
		}
		if len(s.denials) < maxDenials {
			s.denials = append(s.denials, approval.Denial{ToolName: name, ToolUseID: in.CallID, ToolInput: slices.Clone(input)})
		}
	})
}

// layered is what the settings of a folder say.
type layered struct {
	from     []settings.Layer
	rules    Pool
	word     string
	dirs     []string
	noBypass bool
	// unknown is Judge.Unknown.
	unknown string
}

// maxFolders bounds the folders whose settings are kept parsed.
const maxFolders = 256

// layers gives what the settings say, parsed once for each version.
func (g *Gate) layers(cwd string) *layered {
	if g.params.Settings == nil {
		return &layered{}
	}
	from := g.params.Settings.For(cwd)
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.parsed[cwd]; l != nil && slices.EqualFunc(l.from, from, sameLayer) {
		return l
	}
	l := g.readLayers(from)
	if len(g.parsed) >= maxFolders {
		clear(g.parsed)
	}
	g.parsed[cwd] = l
	return l
}

func sameLayer(a, b settings.Layer) bool {
	p, q := a.Permissions, b.Permissions
	return a.Scope == b.Scope && a.Root == b.Root && a.Trusted == b.Trusted && errorText(a.Err) == errorText(b.Err) && a.ServersOnly == b.ServersOnly &&
		slices.Equal(p.Allow, q.Allow) && slices.Equal(p.Ask, q.Ask) && slices.Equal(p.Deny, q.Deny) &&
		slices.Equal(p.AdditionalDirectories, q.AdditionalDirectories) && p.DefaultMode == q.DefaultMode &&
		p.DisableBypassPermissionsMode == q.DisableBypassPermissionsMode
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// readLayers pools the layers. What widens rights counts only in those that are
// trusted; what narrows them always does.
func (g *Gate) readLayers(from []settings.Layer) *layered {
	l := &layered{from: slices.Clone(from)}
	for _, layer := range from {
		switch {
		case layer.Err != nil && layer.ServersOnly:
			continue // the rules of the layer are good
		case layer.Err != nil:
			l.unknown = fmt.Sprintf("the rules of the %s settings are not known: %v", layer.Scope, layer.Err)
			continue
		}
		p := layer.Permissions
		take := func(texts []string, behavior string) {
			rules, err := parseAll(texts, behavior, layer.Scope, layer.Root)
			if err != nil {
				g.params.Self.Log.Error("settings hold permission rules that cannot be used", "file", layer.File, "behavior", behavior, "error", err)
				if behavior != approval.Allow {
					l.unknown = fmt.Sprintf("a rule of the %s settings cannot be used: %v", layer.Scope, err)
				}
			}
			l.rules.add(rules...)
		}
		take(p.Deny, approval.Deny)
		if p.DisableBypassPermissionsMode == "disable" {
			l.noBypass = true
		}
		if !layer.Trusted {
			continue
		}
		take(p.Ask, approval.Ask)
		take(p.Allow, approval.Allow)
		for _, dir := range p.AdditionalDirectories {
			l.dirs = append(l.dirs, new(disk).folder(layer.Root, dir, g.home()).lexical)
		}
		switch mode := plainMode(p.DefaultMode); {
		case mode == "":
		case slices.Contains(modes(), mode):
			l.word = mode
		default:
			g.params.Self.Log.Error("settings name a permission mode that there is not", "file", layer.File, "mode", p.DefaultMode)
		}
	}
	return l
}
