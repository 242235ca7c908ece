package permissions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"dsh/kernel/approval"
	"dsh/kernel/settings"
)

// scopeSession is the scope of rules that a session was given.
const scopeSession = "session"

// sessionState is what the policy of one root session has beside the config.
type sessionState struct {
	// word is the mode or preset that was put in force, "" for the config's.
	word  string
	rules Pool
	dirs  []string
	// told is the preset that the log has as the session's, "" for none.
	told string
	// turn is the number of the latest turn, and denials are its.
	turn    int
	denials []approval.Denial
}

// maxDenials bounds what is kept of one turn.
const maxDenials = 10_000

// lineage gives the id of the session at the root, and whether the session is a
// delegated one.
func (g *Gate) lineage(id string) (root string, child bool) {
	if g.params.Agents == nil {
		return id, false
	}
	// A session cannot be its own ancestor; the bound is for broken records.
	for range 64 {
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
	return g.now.Load().wordOf(g.peek(root).word, g.layers(cwd))
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
	if mode == "manual" {
		mode = ModeDefault
	}
	if err := g.checkWord(mode, cwd); err != nil {
		return err
	}
	root, _ := g.lineage(sessionID)
	g.with(root, func(s *sessionState) { s.word = mode })
	return nil
}

func (g *Gate) checkWord(mode, cwd string) error {
	switch {
	case !slices.Contains(words(), mode):
		return fmt.Errorf("there is no permission mode %q; use one of %v", mode, words())
	case mode != ModeBypass:
	case g.now.Load().DisableBypass:
		return errors.New("permission mode bypassPermissions is forbidden by disableBypass of the profile")
	case g.layers(cwd).noBypass:
		return errors.New("permission mode bypassPermissions is forbidden by disableBypassPermissionsMode of the settings")
	}
	return nil
}

// Update implements approval.Policy.
func (g *Gate) Update(sessionID, cwd string, updates []approval.Update) error {
	root, _ := g.lineage(sessionID)
	var errs []error
	for _, u := range updates {
		change, err := g.change(u, cwd)
		if err != nil {
			errs = append(errs, fmt.Errorf("permission update %s: %w", u.Type, err))
			continue
		}
		g.with(root, change)
	}
	return errors.Join(errs...)
}

// change checks an update and gives what it does.
func (g *Gate) change(u approval.Update, cwd string) (func(*sessionState), error) {
	switch u.Type {
	case approval.SetMode:
		mode := u.Mode
		if mode == "manual" {
			mode = ModeDefault
		}
		return func(s *sessionState) { s.word = mode }, g.checkWord(mode, cwd)
	case approval.AddDirectories, approval.RemoveDirectories:
		if len(u.Directories) == 0 || slices.Contains(u.Directories, "") {
			return nil, errors.New("directories names none")
		}
		return func(s *sessionState) {
			kept := slices.DeleteFunc(slices.Clone(s.dirs), func(dir string) bool { return slices.Contains(u.Directories, dir) })
			if u.Type == approval.AddDirectories {
				kept = append(kept, u.Directories...)
			}
			s.dirs = kept
		}, nil
	case approval.AddRules, approval.ReplaceRules, approval.RemoveRules:
		return changeRules(u)
	}
	return nil, fmt.Errorf("the type is unknown")
}

func changeRules(u approval.Update) (func(*sessionState), error) {
	if !slices.Contains([]string{approval.Allow, approval.Ask, approval.Deny}, u.Behavior) {
		return nil, fmt.Errorf("there is no behavior %q; use allow, ask or deny", u.Behavior)
	}
	texts := make([]string, len(u.Rules))
	for i, r := range u.Rules {
		texts[i] = RuleText(r)
	}
	rules, err := parseAll(texts, u.Behavior, scopeSession, "")
	if err != nil {
		return nil, err
	}
	return func(s *sessionState) {
		list := s.rules.of(u.Behavior)
		switch u.Type {
		case approval.ReplaceRules:
			*list = rules
		case approval.RemoveRules:
			*list = slices.DeleteFunc(slices.Clone(*list), func(r *Rule) bool { return slices.Contains(texts, r.Text) })
		default:
			*list = slices.Concat(*list, rules)
		}
	}, nil
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

// denied records a refused call.
func (g *Gate) denied(sessionID string, turn int, tool, call string, input json.RawMessage) {
	root, child := g.lineage(sessionID)
	g.with(root, func(s *sessionState) {
		if !child {
			s.turnBegan(turn)
		}
		if len(s.denials) < maxDenials {
			s.denials = append(s.denials, approval.Denial{ToolName: tool, ToolUseID: call, ToolInput: slices.Clone(input)})
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
		mode := p.DefaultMode
		if mode == "manual" {
			mode = ModeDefault
		}
		switch {
		case mode == "":
		case slices.Contains(modes(), mode):
			l.word = mode
		default:
			g.params.Self.Log.Error("settings name a permission mode that there is not", "file", layer.File, "mode", p.DefaultMode)
		}
	}
	return l
}
