package permissions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"dsh/kernel/approval"
	"dsh/kernel/settings"
	"dsh/plugins/internal/settingsfile"
	"dsh/sdkproto/wirejson"
)

// Update implements approval.Policy.
func (g *Gate) Update(sessionID, cwd string, updates []approval.Update) error {
	root, _ := g.lineage(sessionID)
	return g.update(g.params.Self.Owner.Context(), root, cwd, updates)
}

// update makes changes of the policy of a root session, each as a whole or not at
// all, in order. The error joins what is wrong with those that are left out.
func (g *Gate) update(ctx context.Context, root, cwd string, updates []approval.Update) error {
	var errs []error
	for i, u := range updates {
		if err := g.updateOne(ctx, root, cwd, u); err != nil {
			errs = append(errs, fmt.Errorf("permission update %d (%s): %w", i, orDash(u.Type), err))
		}
	}
	g.changed(root)
	return errors.Join(errs...)
}

func orDash(s string) string {
	if s == "" {
		return "without a type"
	}
	return s
}

// scopeOf gives the scope of a destination, and whether it is a settings file.
func scopeOf(destination string) (scope string, file bool, err error) {
	switch destination {
	case "", approval.DestinationSession:
		return scopeSession, false, nil
	case approval.DestinationFlags:
		return scopeFlags, false, nil
	case approval.DestinationLocal:
		return settings.ScopeLocal, true, nil
	case approval.DestinationProject:
		return settings.ScopeProject, true, nil
	case approval.DestinationUser:
		return settings.ScopeUser, true, nil
	}
	return "", false, fmt.Errorf("there is no destination %q", destination)
}

func (g *Gate) updateOne(ctx context.Context, root, cwd string, u approval.Update) error {
	scope, file, err := scopeOf(u.Destination)
	if err != nil {
		return err
	}
	u.Mode = plainMode(u.Mode)
	rules, err := g.checkUpdate(u, cwd, scope)
	if err != nil {
		return err
	}
	now := g.rootWord(root, cwd) // before a file says otherwise
	// bypassPermissions is never written down (spec stream-json 7.6).
	if file && !(u.Type == approval.SetMode && u.Mode == ModeBypass) {
		holds, err := g.persist(ctx, cwd, scope, u)
		if err != nil {
			return err
		}
		if holds && u.Type != approval.SetMode {
			return nil
		}
		// The file does not count for this session, because nobody trusts it or
		// because it is not read. What a person has just agreed to holds all the same.
	}
	g.with(root, func(s *sessionState) { s.apply(u, scope, rules, g.now.Load(), now) })
	return nil
}

// checkUpdate refuses what makes no sense and gives the rules of an update.
func (g *Gate) checkUpdate(u approval.Update, cwd, scope string) ([]*Rule, error) {
	switch u.Type {
	case approval.SetMode:
		return nil, g.checkWord(u.Mode, cwd)
	case approval.AddDirectories, approval.RemoveDirectories:
		if len(u.Directories) == 0 || slices.Contains(u.Directories, "") {
			return nil, errors.New("directories names none")
		}
		return nil, nil
	case approval.AddRules, approval.ReplaceRules, approval.RemoveRules:
	default:
		return nil, errors.New("the type is unknown")
	}
	switch {
	case !slices.Contains([]string{approval.Allow, approval.Ask, approval.Deny}, u.Behavior):
		return nil, fmt.Errorf("there is no behavior %q; use allow, ask or deny", u.Behavior)
	case len(u.Rules) == 0 && u.Type != approval.ReplaceRules:
		return nil, errors.New("rules names none")
	}
	return parseAll(ruleTexts(u.Rules), u.Behavior, scope, "")
}

func ruleTexts(rules []approval.Rule) []string {
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = RuleText(r)
	}
	return texts
}

// apply changes what a session has in memory; now is the word in force. Lists are
// replaced, not changed: calls that are being judged hold the old ones.
func (s *sessionState) apply(u approval.Update, scope string, rules []*Rule, e *edition, now string) {
	pool, dirs := s.rules, s.dirs
	if scope == scopeFlags {
		pool, dirs = s.flagsOr(e), s.flagDirsOr(e)
	}
	switch u.Type {
	case approval.SetMode:
		s.turnTo(u.Mode, now)
		return
	case approval.AddDirectories, approval.RemoveDirectories:
		dirs = changed(dirs, u.Directories, u.Type == approval.AddDirectories)
	default:
		list := pool.of(u.Behavior)
		*list = slices.DeleteFunc(slices.Clone(*list), func(r *Rule) bool {
			return r.Scope == scope && (u.Type == approval.ReplaceRules || slices.ContainsFunc(rules, r.same))
		})
		if u.Type != approval.RemoveRules {
			*list = append(*list, rules...)
		}
	}
	if scope == scopeFlags {
		s.flags, s.flagDirs = &pool, &dirs
	} else {
		s.rules, s.dirs = pool, dirs
	}
}

// same reports whether two rules say the same, however they are written.
func (r *Rule) same(other *Rule) bool { return r.tool == other.tool && r.content == other.content }

// changed gives a list without some texts, and with them at the end when they are
// to be in it.
func changed(list, texts []string, add bool) []string {
	kept := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(texts, s) })
	if add {
		kept = append(kept, texts...)
	}
	return kept
}

// persist writes an update into the settings file of a scope: the highest one that
// holds rules, made if it is not there. holds says that the file counts for
// sessions in this folder.
func (g *Gate) persist(ctx context.Context, cwd, scope string, u approval.Update) (holds bool, err error) {
	layer, ok := g.layerOf(cwd, scope)
	if !ok {
		return false, fmt.Errorf("there is no file for %s; no row of the profile reads settings", u.Destination)
	}
	if err := g.checkFile(layer); err != nil {
		return false, err
	}
	// What a person keeps for themselves is theirs alone.
	perm := fs.FileMode(0o600)
	if scope == settings.ScopeProject {
		perm = 0o644
	}
	if u.Type == approval.AddDirectories || u.Type == approval.RemoveDirectories {
		u.Directories = slices.Clone(u.Directories)
		for i, dir := range u.Directories {
			// The file may be about another folder than the session's.
			if dir = expandHome(dir, g.home()); !filepath.IsAbs(dir) {
				dir = filepath.Join(cwd, dir)
			}
			u.Directories[i] = filepath.Clean(dir)
		}
	}
	if err := settingsfile.Edit(ctx, layer.File, perm, func(d *settingsfile.Document) error { return writeUpdate(d, layer.File, u) }); err != nil {
		return false, err
	}
	layer, _ = g.layerOf(cwd, scope)
	return layer.Exists && layer.Trusted && layer.Err == nil, nil
}

// layerOf gives the highest layer of a scope that holds rules.
func (g *Gate) layerOf(cwd, scope string) (settings.Layer, bool) {
	if g.params.Settings == nil {
		return settings.Layer{}, false
	}
	for _, l := range slices.Backward(g.params.Settings.For(cwd)) {
		if l.Scope == scope && l.File != "" && !l.ServersOnly {
			return l, true
		}
	}
	return settings.Layer{}, false
}

// checkFile refuses a file of a project whose links lead out of it: a checkout
// must not have a person's consent written somewhere else.
func (g *Gate) checkFile(l settings.Layer) error {
	if l.Scope == settings.ScopeUser {
		return nil
	}
	var d disk
	if at := d.locate(l.Root, l.File); !d.folder(l.Root, ".", "").holds(at) {
		return fmt.Errorf("%s leads to %s, which is outside of the project", l.File, at.real)
	}
	return nil
}

// permissionsKey is the object of rules in a settings file.
const permissionsKey = "permissions"

// writeUpdate changes a settings file.
func writeUpdate(d *settingsfile.Document, file string, u approval.Update) error {
	switch u.Type {
	case approval.SetMode:
		return d.Set(u.Mode, permissionsKey, "defaultMode")
	case approval.AddDirectories, approval.RemoveDirectories:
		return editList(d, file, "additionalDirectories", func(list []string) []string {
			return changed(list, u.Directories, u.Type == approval.AddDirectories)
		})
	}
	texts := ruleTexts(u.Rules)
	return editList(d, file, u.Behavior, func(list []string) []string {
		switch u.Type {
		case approval.ReplaceRules:
			return texts
		case approval.RemoveRules:
			return slices.DeleteFunc(slices.Clone(list), func(text string) bool { return holdsRule(texts, text, u.Behavior) })
		}
		for _, text := range texts {
			if !holdsRule(list, text, u.Behavior) {
				list = append(slices.Clip(list), text)
			}
		}
		return list
	})
}

// holdsRule reports whether one of the texts is the same rule, which may be
// written in more ways than one.
func holdsRule(texts []string, text, behavior string) bool {
	if slices.Contains(texts, text) {
		return true
	}
	one, err := ParseRule(text, behavior, "", "")
	return err == nil && slices.ContainsFunc(texts, func(t string) bool {
		other, err := ParseRule(t, behavior, "", "")
		return err == nil && one.same(other)
	})
}

// editList changes a list of texts in the object of rules; one that would stay as
// it is is not touched.
func editList(d *settingsfile.Document, file, key string, change func([]string) []string) error {
	var f struct {
		Permissions map[string]any `json:"permissions"`
	}
	if err := wirejson.Unmarshal(d.JSON(), &f); err != nil {
		return fmt.Errorf("%s:%w", file, d.Locate(err))
	}
	var list []string
	if value, ok := f.Permissions[key]; ok && value != nil {
		items, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%s: permissions.%s is no list; mend it first", file, key)
		}
		for _, item := range items {
			text, ok := item.(string)
			if !ok {
				return fmt.Errorf("%s: permissions.%s holds something that is no text; mend it first", file, key)
			}
			list = append(list, text)
		}
	}
	next := change(list)
	if slices.Equal(list, next) {
		return nil
	}
	if next == nil {
		next = []string{}
	}
	return d.Set(next, permissionsKey, key)
}
