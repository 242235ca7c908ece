package permissions

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"dsh/kernel/approval"
	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// command judges a tool that runs a shell command.
func (j *Judge) command(s tool.Spec, members map[string]any) findings {
	text, ok := members[s.Subject.Member].(string)
	line := &shellLine{opaque: "it names no command", unseen: "it names no command"}
	if ok {
		line = readShell(text)
	}
	c := &shellCase{j: j, spec: s, line: line, f: findings{shell: true}}
	c.folders(members)
	c.refusals()
	c.writes()
	c.grants()
	return c.f
}

// shellCase is the judgement of one shell command.
type shellCase struct {
	j    *Judge
	spec tool.Spec
	line *shellLine
	// dirs are the folders that a part may run in, by the number of cd in front of
	// it; strayed: in others, too.
	dirs    [][]string
	strayed bool
	f       findings
	// away is the path that outside has last found to be outside, "" for none.
	away string
}

// maxDirs bounds the combinations of where cd may have led.
const maxDirs = 32

// folders works out where the parts may run.
func (c *shellCase) folders(members map[string]any) {
	dir := c.j.CWD
	if name, _ := members[c.spec.Subject.Dir].(string); name != "" {
		dir = c.j.disk.locate(dir, name).lexical
	}
	dirs := []string{dir}
	c.dirs, c.strayed = [][]string{dirs}, c.line.strayed
	for _, to := range c.line.dirs {
		// It may have been reached or not.
		for _, from := range dirs {
			for _, at := range c.j.disk.raw(from, expandHome(to.text, c.j.Home)) {
				for _, dir := range []string{at.lexical, at.real} {
					if !slices.Contains(dirs, dir) {
						dirs = append(slices.Clip(dirs), dir)
					}
				}
			}
		}
		c.dirs = append(c.dirs, dirs)
		if len(dirs) > maxDirs {
			c.strayed = true
			return
		}
	}
}

// dirsOf gives the folders that a word may be relative to.
func (c *shellCase) dirsOf(w word) []string {
	if c.line.loops || w.moved >= len(c.dirs) {
		return c.dirs[len(c.dirs)-1]
	}
	return c.dirs[w.moved]
}

// places gives where a word may lead; ok says that these are all.
func (c *shellCase) places(w word) (places []place, ok bool) {
	name := expandHome(w.text, c.j.Home)
	if !w.known {
		if !w.globbed {
			return nil, false
		}
		return c.globbed(w, name)
	}
	ok = !c.strayed || filepath.IsAbs(name)
	for _, dir := range c.dirsOf(w) {
		places = append(places, c.j.disk.raw(dir, name)...)
	}
	return places, ok
}

// maxMatches bounds the files that a pattern of the shell is looked up for.
const maxMatches = 1000

// globbed looks up a pattern whose last part alone is one.
func (c *shellCase) globbed(w word, pattern string) (places []place, ok bool) {
	dir, last := path.Split(pattern)
	if c.strayed || strings.ContainsAny(dir, `*?[{\'"~`) || strings.ContainsAny(last, `{\'"`) {
		return nil, false
	}
	for _, from := range c.dirsOf(w) {
		at := c.j.disk.locate(from, dir)
		matches, err := filepath.Glob(filepath.Join(quoteGlob(at.real), last))
		if err != nil || len(matches) > maxMatches {
			return nil, false
		}
		for _, m := range matches {
			places = append(places, c.j.disk.locate(from, filepath.Join(dir, filepath.Base(m))))
		}
	}
	return places, true
}

// quoteGlob takes the meaning from special characters of a folder's name.
func quoteGlob(dir string) string {
	if !strings.ContainsAny(dir, `*?[\`) || filepath.Separator == '\\' {
		return dir
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// isDevice: what may be written in any confinement, and holds nothing.
func isDevice(text string) bool {
	switch text {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/random", "/dev/urandom":
		return true
	}
	return strings.HasPrefix(text, "/dev/fd/") && strings.Trim(text[len("/dev/fd/"):], "0123456789") == ""
}

// refusals looks for deny and ask rules: they fire on any part.
func (c *shellCase) refusals() {
	deny, ask := about(c.j.Rules.Deny, c.spec), about(c.j.Rules.Ask, c.spec)
	c.f.deny, c.f.ask = c.fires(deny), c.fires(ask)
	if hidden := firstContent(deny, ask); hidden != nil && c.line.unseen != "" && c.f.unclear == "" {
		c.f.unclear = fmt.Sprintf("rule %s (%s) may apply: %s", hidden.Text, hidden.Scope, c.line.unseen)
	}
	for _, r := range slices.Concat(c.j.Rules.Deny, c.j.Rules.Ask) {
		if !r.bare() && r.path != nil && r.pathErr == nil && (r.tool == familyRead || r.tool == familyEdit) {
			c.firesOnFiles(r)
		}
	}
}

func firstContent(lists ...[]*Rule) *Rule {
	for _, r := range slices.Concat(lists...) {
		if !r.bare() {
			return r
		}
	}
	return nil
}

// fires gives the first rule that is about a part.
func (c *shellCase) fires(rules []*Rule) *Rule {
	for _, r := range rules {
		if r.bare() {
			return r
		}
		for _, p := range c.line.parts {
			if slices.ContainsFunc(p.texts, func(text string) bool { return matchesCommand(r.content, text) }) {
				return r
			}
		}
	}
	return nil
}

// firesOnFiles looks whether a part reads or writes what a rule about files
// refuses.
func (c *shellCase) firesOnFiles(r *Rule) {
	reads := r.tool == familyRead
	check := func(words []word, deep, recognised bool) {
		for _, w := range words {
			places, ok := c.places(w)
			if !ok && recognised && c.f.unclear == "" {
				c.f.unclear = fmt.Sprintf("rule %s (%s) may apply: which files the command is about is known only when it runs", r.Text, r.Scope)
			}
			for _, at := range places {
				if r.path.covers(c.j.scene(r), at, false) {
					c.hit(r, at)
					return
				}
				if deep && c.f.unclear == "" && r.path.isBelow(c.j.scene(r), at) {
					c.f.unclear = fmt.Sprintf("rule %s (%s) may apply: the command reads all that is below %s; use the tool for searching instead", r.Text, r.Scope, at.lexical)
				}
			}
		}
	}
	for _, p := range c.line.parts {
		e := touches(p)
		known := isRecognised(p)
		if reads {
			check(e.reads, e.deep, known)
		}
		if !reads || r.Behavior == approval.Deny {
			check(e.writes, false, known)
		}
	}
	for _, file := range c.line.redirects {
		if file.write != reads || file.write && r.Behavior == approval.Deny {
			check([]word{file.word}, false, true)
		}
	}
}

func (c *shellCase) hit(r *Rule, at place) {
	switch {
	case r.Behavior == approval.Deny && c.f.deny == nil:
		c.f.deny = r
	case r.Behavior == approval.Ask && c.f.ask == nil:
		c.f.ask = r
	default:
		return
	}
	c.f.blocked = at.lexical
}

// writes looks for files that would be written though they are protected or, in
// a sandbox, out of reach.
func (c *shellCase) writes() {
	sandbox := c.j.Confinement()
	held := sandbox != nil && c.j.reached(sandbox).Level == process.ReachedFull
	var open []folder
	if held {
		for _, dir := range sandbox.Write {
			open = append(open, c.j.disk.folder(c.j.CWD, dir, ""))
		}
	}
	look := func(w word, destroys bool) {
		if isDevice(w.text) {
			return
		}
		places, _ := c.places(w)
		for _, at := range places {
			danger := c.j.protected(at)
			if danger == "" && destroys && c.j.isRoot(at) {
				danger = at.lexical + " is a working directory itself"
			}
			if danger != "" && c.f.danger == "" {
				c.f.danger, c.f.blocked = danger, at.lexical
			}
			if held && c.f.beyond == "" && !anyHolds(open, at) {
				c.f.beyond = fmt.Sprintf("the command writes %s, which %s forbids", at.lexical, c.j.named())
				if c.f.blocked == "" {
					c.f.blocked = at.lexical
				}
			}
		}
	}
	for _, p := range c.line.parts {
		e := written(p)
		for _, w := range e.writes {
			look(w, e.destroys)
		}
	}
	for _, file := range c.line.redirects {
		if file.write {
			look(file.word, false)
		}
	}
}

// isRoot: removing the place removes a working directory.
func (j *Judge) isRoot(at place) bool {
	return slices.ContainsFunc(j.roots(true), func(root folder) bool { return at.real == root.real || at.lexical == root.lexical })
}

// grants looks for what allows each part: a rule, or what it is seen to do.
func (c *shellCase) grants() {
	rules := about(c.j.Rules.Allow, c.spec)
	for _, r := range rules {
		if r.bare() {
			c.f.allow = r
			break
		}
	}
	if c.line.opaque != "" {
		c.f.rest = "the command without a question: " + c.line.opaque
		return
	}
	if len(c.line.parts) == 0 && len(c.line.redirects) == 0 {
		// Only comments, or nothing.
		c.f.readOnly = true
		return
	}
	// all: every part so far is allowed by a rule or by what it does.
	readOnly, inside, all := true, true, true
	var first *Rule
	for _, p := range c.line.parts {
		if p.inner {
			continue
		}
		r := ruleFor(rules, p)
		if r != nil && first == nil {
			first = r
		}
		reads, writes, outside := c.does(p)
		readOnly, inside = readOnly && reads, inside && (reads || writes) && outside == ""
		if outside != "" && r == nil && c.f.outside == "" {
			c.f.outside, c.f.away = outside, c.away
		}
		if r == nil && (outside != "" || !reads && !(writes && c.j.letsEdit())) {
			all = false
			c.f.wanting = append(c.f.wanting, prefixOf(p.words))
			if c.f.rest == "" {
				c.f.rest = fmt.Sprintf("the command %q without a question", shorten(p.texts[0]))
			}
		}
	}
	for _, file := range c.line.redirects {
		reads, writes, outside, r := c.redirected(file)
		readOnly, inside = readOnly && reads, inside && (reads || writes) && outside == ""
		if outside != "" && c.f.outside == "" && r == nil {
			c.f.outside, c.f.away = outside, c.away
		}
		if r == nil && (outside != "" || !reads && !(writes && c.j.letsEdit())) {
			all = false
			if c.f.rest == "" {
				c.f.rest = fmt.Sprintf("writing the file %q", shorten(file.text))
			}
		}
	}
	c.f.readOnly, c.f.inside = readOnly, inside
	if c.f.blocked == "" {
		c.f.blocked = c.f.away
	}
	if c.f.allow == nil && all {
		c.f.allow = first
	}
	if c.f.rest == "" {
		c.f.rest = "the command without a question"
	}
}

// letsEdit: the mode lets calls write in the working directories.
func (j *Judge) letsEdit() bool {
	return j.Word == ModeAcceptEdits || j.Word == process.WorkspaceWrite
}

// ruleFor gives an allow rule that a part matches.
func ruleFor(rules []*Rule, p shellPart) *Rule {
	for _, r := range rules {
		if !r.bare() && slices.ContainsFunc(p.texts, func(text string) bool { return matchesCommand(r.content, text) }) {
			return r
		}
	}
	return nil
}

// does says what a part is known to do: only to read, or to write no more than
// mode acceptEdits allows. outside says what of it lies beyond the working
// directories.
func (c *shellCase) does(p shellPart) (reads, writes bool, outside string) {
	e, reads := readOnly(p)
	if !reads {
		if e, writes = edits(p); !writes {
			return false, false, ""
		}
	}
	for _, w := range e.reads {
		if o := c.outside(w, false); o != "" {
			return reads, writes, o
		}
	}
	for _, w := range e.writes {
		if o := c.outside(w, true); o != "" {
			return reads, writes, o
		}
	}
	return reads, writes, ""
}

func (c *shellCase) outside(w word, write bool) string {
	if isDevice(w.text) || !write && isPreset(c.j.Word) {
		return "" // a preset does not restrict reading
	}
	places, ok := c.places(w)
	c.away = ""
	if !ok {
		return fmt.Sprintf("where %q leads is known only when the command runs", shorten(w.text))
	}
	for _, at := range places {
		if !c.j.isInside(at, write) {
			c.away = at.lexical
			return fmt.Sprintf("%s is outside of the folders that %s opens", at.lexical, c.j.named())
		}
	}
	return ""
}

// redirected is does for a redirection; r is a rule about files that allows it.
func (c *shellCase) redirected(file shellFile) (reads, writes bool, outside string, r *Rule) {
	if isDevice(file.text) && file.known {
		return true, false, "", nil
	}
	outside = c.outside(file.word, file.write)
	places, ok := c.places(file.word)
	for _, rule := range c.j.Rules.Allow {
		if !ok || rule.tool != familyEdit && (file.write || rule.tool != familyRead) || rule.path == nil || rule.pathErr != nil {
			continue
		}
		if rule.bare() && outside != "" {
			continue
		}
		if rule.bare() || !slices.ContainsFunc(places, func(at place) bool { return !rule.path.covers(c.j.scene(rule), at, true) }) {
			return !file.write, file.write, outside, rule
		}
	}
	return !file.write, file.write, outside, nil
}

// isRecognised: what a command does with its operands is known, so that an
// operand that cannot be seen matters.
func isRecognised(p shellPart) bool {
	switch p.words[0].text {
	case "cat", "head", "tail", "sed", "grep", "egrep", "fgrep", "rg", "less", "more", "nl", "tac", "awk", "cut", "sort", "wc", "base64",
		"xxd", "od", "strings", "cp", "mv", "rm", "tee", "dd", "ln", "install", "touch", "truncate":
		return true
	}
	return false
}

// written gives what a command is seen to write.
func written(p shellPart) effect {
	if e, ok := edits(p); ok {
		return e
	}
	files := operands(p.words[1:])
	switch p.words[0].text {
	case "tee", "touch", "mkdir", "truncate", "chmod", "chown":
		return effect{writes: files}
	case "rm", "rmdir", "mv":
		return effect{writes: files, destroys: true}
	case "cp", "ln", "install":
		if len(files) > 0 && !has(p.words, "-t") {
			return effect{writes: files[len(files)-1:]}
		}
	case "dd":
		for _, w := range p.words[1:] {
			if rest, ok := strings.CutPrefix(w.text, "of="); ok {
				w.text = rest
				return effect{writes: []word{w}}
			}
		}
	}
	return effect{}
}

// isBelow reports whether what the pattern means lies below a place.
func (p *pathPattern) isBelow(s scene, at place) bool {
	base := p.base(s)
	if base == "" {
		return false
	}
	real := s.disk.follow(base)
	if _, ok := below(at.real, real, s.fold); ok {
		return true
	}
	if p.rest == nil {
		return false
	}
	// A name without a slash is anywhere below its base.
	_, ok := below(real, at.real, s.fold)
	return ok
}

func shorten(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}
