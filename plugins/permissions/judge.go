package permissions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"dsh/kernel/approval"
	"dsh/kernel/process"
	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// Modes of spec stream-json 7.1. "manual" is another name of default.
const (
	ModeDefault     = "default"
	ModeAcceptEdits = "acceptEdits"
	ModePlan        = "plan"
	ModeBypass      = "bypassPermissions"
	ModeDontAsk     = "dontAsk"
)

// planRefusal is the text of spec stream-json 7.1 (decision D7 there).
const planRefusal = "Permission denied: Plan mode: write operations are not allowed"

// words are all that Judge.Word may be: the modes, then the presets.
func words() []string {
	return []string{ModeDefault, ModeAcceptEdits, ModePlan, ModeBypass, ModeDontAsk,
		process.ReadOnly, process.WorkspaceWrite, process.FullAccess}
}

func isPreset(word string) bool {
	return word == process.ReadOnly || word == process.WorkspaceWrite || word == process.FullAccess
}

// Judge holds all that a decision depends on; make one for each. It asks nobody
// and changes nothing; it looks at the disk only to follow links.
//
// The order of its reasons is that of spec stream-json 7.3, steps 4 to 9: deny
// rules, mode plan, ask rules, protected paths, the other modes, then what allows.
// The hooks of step 3 have run before a call gets here; what they say is the
// call's advice.
type Judge struct {
	// Word is the preset or mode in force.
	Word string
	// CWD is the session's absolute working directory, Dirs further ones.
	CWD  string
	Dirs []string
	// Open are folders that a preset lets calls write beside those, such as the one
	// for temporary files; Caches are those that it opens to programs only; Readable
	// are folders that calls may read in any mode.
	Open, Caches, Readable []string
	// Home is the user's home, "" when there is none; State is $DSH_HOME.
	Home, State string
	// Protected are names of files and folders that are written only with somebody's
	// consent, wherever in a working directory they are.
	Protected []string
	Rules     Pool
	// Unknown says which rules there are that cannot be read; "" for none. Nothing
	// runs unasked then, because one of them may forbid it (case B82).
	Unknown string
	// Fold: file names that differ in case are the same.
	Fold bool
	// NoNetwork and Strict go into the confinement.
	NoNetwork, Strict bool
	// Reach says what this machine can hold of a confinement; nil holds nothing.
	Reach func(*process.Confinement) process.Reached

	disk disk
	// found are the roots for reading and for writing, once they are known.
	found [2][]folder
}

// findings is what was found about a call, before the ground rules decide.
type findings struct {
	deny, ask, allow *Rule
	// blocked is the path that led to deny, ask, danger or doubt.
	blocked string
	// danger says what is protected and would be written; outside what lies beyond
	// the working directories.
	danger, outside string
	// unclear says why ask and deny rules cannot be compared with the call.
	unclear string
	// away is the path that outside is about, "" for none.
	away string
	// readOnly: the call changes nothing. inside: it writes, and only what mode
	// acceptEdits lets it. free: the call's effects are judged when they happen.
	// chosen: it reads, but what it puts before the model is for a person to choose.
	readOnly, inside, free, chosen bool
	// shell: the call runs a command that a sandbox can hold. beyond says what it
	// would write that its sandbox forbids.
	shell  bool
	beyond string
	// rest says what is asked when nothing allows the call; wanting are the commands
	// that no rule allows, each as the content of a rule that would.
	rest    string
	wanting []string
}

// ruling is a verdict with what it is made of.
type ruling struct {
	approval.Verdict
	f findings
}

// Decide judges a call. arguments is a JSON object that the tool's schema accepts.
func (j *Judge) Decide(s tool.Spec, arguments json.RawMessage) approval.Verdict {
	return j.rule(s, arguments, tool.Advice{}).Verdict
}

// rule judges a call about which hooks have said something.
func (j *Judge) rule(s tool.Spec, arguments json.RawMessage, advice tool.Advice) ruling {
	var f findings
	members := map[string]any{}
	// A tool without a schema may get anything; what cannot be read has no subject.
	_ = wirejson.Unmarshal(arguments, &members)
	switch s.Subject.Kind {
	case tool.SubjectCommand:
		f = j.command(s, members)
	case tool.SubjectPath, tool.SubjectPattern:
		f = j.file(s, members)
	default:
		f = j.other(s, members)
	}
	r := ruling{j.verdict(s, f), f}
	r.advised(s, advice)
	if r.Behavior == approval.Ask {
		j.unanswered(s, &r)
	}
	return r
}

// scopeHook is the scope of what hooks have decided.
const scopeHook = "hook"

// advised lays what hooks have said over a verdict (spec stream-json 6.5 rule 2).
// A hook that allows a call spares it the question, but no rule, no safety check
// and no confinement.
func (r *ruling) advised(s tool.Spec, a tool.Advice) {
	v := &r.Verdict
	by := func(behavior, reason string) {
		v.Behavior, v.ReasonType, v.Reason, v.Rule, v.Scope = behavior, approval.ReasonHook, reason, "", scopeHook
	}
	switch {
	case a.Behavior == approval.Deny:
		by(approval.Deny, cmp.Or(a.Reason, "a hook refuses the call"))
		v.Message = cmp.Or(a.Reason, denialText(s.Name))
	case a.Behavior == approval.Ask && v.Behavior == approval.Allow:
		by(approval.Ask, cmp.Or(a.Reason, "a hook wants somebody to be asked"))
	case a.Behavior == approval.Allow && v.Behavior == approval.Ask && v.Approved == v.Confinement &&
		v.ReasonType != approval.ReasonRule && v.ReasonType != approval.ReasonSafety:
		by(approval.Allow, cmp.Or(a.Reason, "a hook allows the call"))
	}
}

// denialText is what a refusal by a rule or without words says (spec stream-json
// 7.7).
func denialText(name string) string {
	return fmt.Sprintf("Permission to use %s has been denied.", name)
}

// unanswered says what becomes of a call that somebody has to be asked about when
// nobody is (spec stream-json 7.3 rules 9 and 10).
func (j *Judge) unanswered(s tool.Spec, r *ruling) {
	switch {
	case j.Word == ModeDontAsk:
		r.Behavior, r.ReasonType = approval.Deny, approval.ReasonMode
		r.Message = "Permission denied: dontAsk mode: " + r.Reason
	case isPreset(j.Word):
		r.Message = "Permission denied: " + r.Reason + ", and nobody can be asked here. " + j.advice(s, r.f)
	default:
		r.Message = fmt.Sprintf("Permission denied: this use of %s needs approval, and nobody can be asked here: %s. %s", s.Name, r.Reason, j.advice(s, r.f))
	}
}

// verdict applies the ground rules to what was found.
func (j *Judge) verdict(s tool.Spec, f findings) approval.Verdict {
	sandbox := j.Confinement()
	v := approval.Verdict{BlockedPath: f.blocked, Confinement: sandbox, Approved: sandbox}
	if f.shell && v.Confinement != nil {
		v.Reached = j.reached(v.Confinement)
	}
	held := f.shell && v.Reached.Level == process.ReachedFull
	free := j.Word == ModeBypass || j.Word == process.FullAccess
	by := func(behavior, kind, reason string) approval.Verdict {
		v.Behavior, v.ReasonType, v.Reason = behavior, kind, reason
		return v
	}
	ruled := func(behavior string, r *Rule) approval.Verdict {
		v.Rule, v.Scope = r.Text, r.Scope
		if behavior == approval.Deny {
			v.Message = denialText(s.Name)
			if isPreset(j.Word) {
				v.Message += fmt.Sprintf(" The rule is %s (%s).", r.Text, r.Scope)
			}
		}
		return by(behavior, approval.ReasonRule, fmt.Sprintf("rule %s (%s) says %s", r.Text, r.Scope, behavior))
	}
	switch {
	case f.deny != nil:
		return ruled(approval.Deny, f.deny)
	case j.Word == ModePlan && !f.readOnly && !f.free && !s.AsksUser:
		// Before ask rules: nobody is asked whether the mode may be broken (D7 there).
		return j.planned(v)
	case f.ask != nil:
		return ruled(approval.Ask, f.ask)
	case s.AsksUser:
		return by(approval.Ask, approval.ReasonOther, "the call is a question to the user")
	case j.Unknown != "" && !f.free:
		return by(approval.Ask, approval.ReasonSafety, j.Unknown)
	case f.unclear != "":
		return by(approval.Ask, approval.ReasonSafety, f.unclear)
	case f.danger != "" && !free:
		return by(approval.Ask, approval.ReasonSafety, f.danger)
	case free:
		return by(approval.Allow, approval.ReasonMode, j.named()+" allows every call")
	case f.beyond != "":
		// Somebody who approves this approves what the sandbox would forbid.
		v.Approved = nil
		return by(approval.Ask, approval.ReasonWorkingDir, f.beyond)
	case j.Strict && f.shell && v.Confinement != nil && !held:
		v.Message = fmt.Sprintf("Permission denied: commands must be confined to %s and this machine cannot do it: %s. The person who runs this has to mend that, or take `strict` out of the profile.",
			v.Confinement.Mode, v.Reached.Missing)
		return by(approval.Deny, approval.ReasonSafety, "the confinement that is required cannot be held: "+v.Reached.Missing)
	case f.allow != nil:
		return ruled(approval.Allow, f.allow)
	case f.free:
		return by(approval.Allow, approval.ReasonOther, "what the call leads to is judged when it happens")
	case f.readOnly && !f.chosen && (f.outside == "" || isPreset(j.Word)):
		return by(approval.Allow, approval.ReasonMode, "the call only reads")
	case held:
		return by(approval.Allow, approval.ReasonMode, fmt.Sprintf("the command is confined to %s", v.Confinement.Mode))
	case f.inside && j.letsEdit():
		return by(approval.Allow, approval.ReasonMode, j.named()+" allows writing in the working directories")
	case f.outside != "":
		return by(approval.Ask, approval.ReasonWorkingDir, f.outside)
	case j.Word == process.WorkspaceWrite && s.Subject.Kind == "":
		return by(approval.Allow, approval.ReasonMode, j.named()+" allows tools that the profile has chosen")
	}
	if f.shell && v.Confinement != nil {
		// The machine cannot confine it, so what is approved is the command as it is.
		v.Approved = nil
	}
	return by(approval.Ask, approval.ReasonOther, j.named()+" does not allow "+f.rest)
}

// planned refuses what mode plan does not let happen.
func (j *Judge) planned(v approval.Verdict) approval.Verdict {
	v.Behavior, v.ReasonType, v.Reason = approval.Deny, approval.ReasonMode, "mode plan lets nothing be written"
	v.Message = planRefusal
	return v
}

func (j *Judge) named() string {
	if isPreset(j.Word) {
		return "preset " + j.Word
	}
	return "mode " + j.Word
}

// advice tells a model whose call was refused what can be done.
func (j *Judge) advice(s tool.Spec, f findings) string {
	name := s.Subject.Rule
	if name == "" {
		name = s.Name
	}
	switch {
	case f.ask != nil:
		return "Go on without it, or tell the user what has to be done by hand."
	case f.beyond != "" && j.Word == process.ReadOnly:
		return "Nothing may be written here: report what you have found, or tell the user that this needs another preset (DSH_PERMISSION_MODE)."
	case f.beyond != "":
		return "Write within the working directories, or tell the user that this needs a further folder in `writable` of the profile's permissions, or another preset (DSH_PERMISSION_MODE)."
	case f.danger != "" || f.unclear != "":
		return "Go on without it, write it more plainly, or tell the user what has to be done by hand."
	case s.AsksUser:
		return "Go on with what seems best to you as far as you may, and say in your reply what you have assumed or would have asked."
	case !isPreset(j.Word):
		return fmt.Sprintf("Stay within what is allowed, or tell the user that this needs an allow rule for %s, or another permission mode.", name)
	}
	return fmt.Sprintf("Stay within what is allowed, or tell the user that this needs an allow rule for %s in the permissions of the profile, or another preset (DSH_PERMISSION_MODE).", name)
}

func (j *Judge) reached(c *process.Confinement) process.Reached {
	if j.Reach == nil {
		return process.Reached{Level: process.ReachedNone, Missing: "no row of the profile confines programs"}
	}
	return j.Reach(c)
}

// Confinement is how the preset confines programs; nil for not at all.
func (j *Judge) Confinement() *process.Confinement {
	c := &process.Confinement{Mode: j.Word, NoNetwork: j.NoNetwork, Strict: j.Strict}
	switch j.Word {
	case process.ReadOnly:
	case process.WorkspaceWrite:
		c.Write = j.writable()
	default:
		return nil
	}
	return c
}

// writable are the folders that a preset opens to programs.
func (j *Judge) writable() []string {
	var dirs []string
	for _, dir := range slices.Concat([]string{j.CWD}, j.Dirs, j.Open, j.Caches) {
		if dir = filepath.Clean(j.absolute(dir)); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (j *Judge) absolute(path string) string {
	path = expandHome(path, j.Home)
	if !filepath.IsAbs(path) {
		path = filepath.Join(j.CWD, path)
	}
	return path
}

// other judges a tool that is about no file and no command.
func (j *Judge) other(s tool.Spec, members map[string]any) findings {
	subject, ok := members[s.Subject.Member].(string)
	if !ok {
		subject = s.Subject.Default
	}
	matches := func(r *Rule) bool {
		switch {
		case r.bare():
			return true
		case s.Subject.Kind == tool.SubjectURL:
			return matchesDomain(r.content, subject) || hostOf(subject) == "" && r.Behavior != approval.Allow
		case s.Subject.Kind == tool.SubjectText:
			return matchesCommand(r.content, subject)
		}
		// What a rule says about a tool without a subject cannot be seen: it refuses
		// every call and allows none.
		return r.Behavior != approval.Allow
	}
	family := familyOf(s.Subject.Rule)
	f := findings{
		readOnly: s.ReadOnly, free: family == familyAgent, rest: "tool " + s.Name,
		// A skill is somebody's instructions to the model, and a search tells its words
		// to a service (spec stream-json 9).
		chosen: (family == familySkill || family == familySearch) && !isPreset(j.Word),
	}
	if s.Subject.Kind == tool.SubjectURL {
		f.outside = "the call reaches " + cmp.Or(hostOf(subject), "an address that cannot be read")
	}
	find := func(rules []*Rule) *Rule {
		for _, r := range about(rules, s) {
			if matches(r) {
				return r
			}
		}
		return nil
	}
	f.deny, f.ask, f.allow = find(j.Rules.Deny), find(j.Rules.Ask), find(j.Rules.Allow)
	return f
}

// pathRules gives the rules about writing or reading a path. What may not be
// read may not be edited either, and what may be edited may be read.
func (j *Judge) pathRules(rules []*Rule, s tool.Spec, write bool) []*Rule {
	var found []*Rule
	for _, r := range rules {
		family := familyOf(r.tool)
		switch {
		case r.names(s):
		case r.tool == familyRead && write && r.Behavior == approval.Deny && !r.bare():
		case r.tool == familyEdit && !write && r.Behavior == approval.Allow && family == familyEdit:
		default:
			continue
		}
		found = append(found, r)
	}
	return found
}

// file judges a tool that is about one file or folder.
func (j *Judge) file(s tool.Spec, members map[string]any) findings {
	write := !s.ReadOnly
	f := findings{readOnly: s.ReadOnly, rest: "tool " + s.Name + " to change files"}
	deny, ask, allow := j.pathRules(j.Rules.Deny, s, write), j.pathRules(j.Rules.Ask, s, write), j.pathRules(j.Rules.Allow, s, write)
	if !write && isPreset(j.Word) && len(deny)+len(ask)+len(allow) == 0 {
		return f // a preset does not restrict reading
	}
	at := j.subjectPlace(s, members)
	covers := func(r *Rule, strict bool) bool {
		switch {
		case r.bare():
			return true
		case r.path == nil || r.pathErr != nil:
			return !strict
		}
		return r.path.covers(j.scene(r), at, strict)
	}
	for _, r := range deny {
		if f.deny == nil && covers(r, false) {
			f.deny = r
		}
	}
	for _, r := range ask {
		if f.ask == nil && covers(r, false) {
			f.ask = r
		}
	}
	if write {
		f.danger = j.protected(at)
	}
	if !j.isInside(at, write) {
		f.outside = fmt.Sprintf("%s is outside of the folders that %s opens", at.lexical, j.named())
		f.away = at.lexical
		if at.real != at.lexical {
			f.outside = fmt.Sprintf("%s leads to %s, which is outside of the folders that %s opens", at.lexical, at.real, j.named())
		}
	}
	for _, r := range allow {
		// A rule that names no path does not open the rest of the machine.
		if f.allow == nil && covers(r, true) && (f.outside == "" || !r.bare()) {
			f.allow = r
		}
	}
	f.inside = write && f.outside == ""
	if f.deny != nil || f.ask != nil || f.danger != "" || f.outside != "" {
		f.blocked = at.lexical
	}
	return f
}

// subjectPlace is what a call is about; the working directory when it does not
// say.
func (j *Judge) subjectPlace(s tool.Spec, members map[string]any) place {
	dir := j.CWD
	if name, _ := members[s.Subject.Dir].(string); name != "" {
		dir = j.disk.locate(dir, name).lexical
	}
	path, _ := members[s.Subject.Member].(string)
	if s.Subject.Kind == tool.SubjectPattern && strings.ContainsAny(path, `*?[{\`) {
		path, _ = doublestar.SplitPattern(filepath.ToSlash(path))
		path = filepath.FromSlash(path)
	}
	return j.disk.locate(dir, path)
}

func (j *Judge) scene(r *Rule) scene {
	return scene{cwd: j.CWD, root: r.root, home: j.Home, fold: j.Fold, disk: &j.disk}
}

// protected says what is protected about a place that would be written, "" for
// nothing.
func (j *Judge) protected(at place) string {
	if j.State != "" {
		state, cwd := j.disk.folder(j.CWD, j.State, j.Home), j.disk.folder(j.CWD, ".", "")
		working := state.holds(place(cwd))
		_, lexical := below(state.lexical, at.lexical, true)
		_, real := below(state.real, at.real, true)
		if (lexical || real) && !working {
			return fmt.Sprintf("%s belongs to dsh itself", at.lexical)
		}
	}
	for _, path := range []string{at.lexical, at.real} {
		rel := path
		for _, root := range j.roots(true) {
			for _, base := range []string{root.lexical, root.real} {
				if r, ok := below(base, path, false); ok && len(r) < len(rel) {
					rel = r
				}
			}
		}
		for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
			for _, name := range j.Protected {
				if strings.EqualFold(part, name) {
					return fmt.Sprintf("%s is protected (%s)", at.lexical, name)
				}
			}
		}
	}
	return ""
}

// roots are the folders that a call may write, or read, without a rule.
func (j *Judge) roots(write bool) []folder {
	kind := 0
	if write {
		kind = 1
	}
	if j.found[kind] != nil {
		return j.found[kind]
	}
	dirs := slices.Concat([]string{j.CWD}, j.Dirs)
	if isPreset(j.Word) {
		dirs = append(dirs, j.Open...)
	}
	if !write {
		dirs = append(dirs, j.Readable...)
	}
	folders := make([]folder, len(dirs))
	for i, dir := range dirs {
		folders[i] = j.disk.folder(j.CWD, dir, j.Home)
	}
	j.found[kind] = folders
	return folders
}

func (j *Judge) isInside(at place, write bool) bool {
	return anyHolds(j.roots(write), at)
}

func anyHolds(folders []folder, at place) bool {
	return slices.ContainsFunc(folders, func(root folder) bool { return root.holds(at) })
}

// Hides gives a function that says which files a call may not read although
// they lie below what it is about; nil when there are none.
func (j *Judge) Hides() func(path string) bool {
	var rules []*Rule
	for _, r := range slices.Concat(j.Rules.Deny, j.Rules.Ask) {
		if r.tool == familyRead && !r.bare() && r.path != nil && r.pathErr == nil {
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return nil
	}
	return func(path string) bool {
		// Calls come from several goroutines, and files change meanwhile.
		fresh := &Judge{CWD: j.CWD, Home: j.Home, Fold: j.Fold}
		at := fresh.disk.locate(j.CWD, path)
		return slices.ContainsFunc(rules, func(r *Rule) bool { return r.path.covers(fresh.scene(r), at, false) })
	}
}

// matchesDomain compares the host of a URL with "domain:HOST", where HOST may
// begin with "*." for all hosts below.
func matchesDomain(content, url string) bool {
	domain, ok := strings.CutPrefix(content, "domain:")
	if !ok {
		return false
	}
	host := hostOf(url)
	domain = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(domain), "."))
	if rest, ok := strings.CutPrefix(domain, "*."); ok {
		return host != "" && strings.HasSuffix(host, "."+rest)
	}
	return host != "" && host == domain
}
