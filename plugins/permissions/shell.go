package permissions

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// shellLine is what can be known of a shell command without running it.
type shellLine struct {
	// parts are all simple commands, in order, wherever they stand: also in
	// substitutions, and those that another one is seen to start.
	parts []shellPart
	// redirects are the files of all redirections.
	redirects []shellFile
	// opaque says why no rule about a part may allow the line; "" when it may.
	opaque string
	// unseen says what in the line no rule can be compared with; "" for nothing.
	unseen string
	// dirs are where cd leads, in order; strayed: to where cannot be known. loops:
	// what stands later may run earlier, or more than once.
	dirs           []word
	strayed, loops bool
	// launched are the words that were taken for the program of a launcher.
	launched map[*word]bool
}

// shellPart is one simple command.
type shellPart struct {
	// words are those of the program that runs, behind wrappers such as timeout.
	words []word
	// texts are what a rule is compared with: the words, quoted where it is
	// needed, and the command as it was written; with and without wrappers.
	texts []string
	// inner: another command starts this one. It can be refused for it, and is not
	// what has to be allowed.
	inner bool
	// fed: further arguments come from somewhere else.
	fed bool
}

// word is one word of a command.
type word struct {
	// text is its value when known, else its source.
	text string
	// known: the shell gives the program exactly text.
	known bool
	// globbed: text is a pattern that the shell replaces by names of files.
	globbed bool
	// moved is how many cd stand in front of the word.
	moved int
}

// shellFile is the file of a redirection.
type shellFile struct {
	word
	write bool
}

const (
	// maxShell bounds what is parsed, in bytes.
	maxShell = 64 << 10
	// maxNested bounds commands in the texts of commands.
	maxNested = 6
	// maxLaunched bounds the words of a launcher in front of its program.
	maxLaunched = 64
	// maxParts bounds the simple commands of a line.
	maxParts = 1000
)

// readShell takes a command apart.
func readShell(command string) *shellLine {
	l := &shellLine{}
	l.read(command, 0)
	// In a loop one cd leads further each time.
	l.strayed = l.strayed || l.loops && len(l.dirs) > 0
	return l
}

func (l *shellLine) block(why string) {
	if l.opaque == "" {
		l.opaque = why
	}
}

func (l *shellLine) miss(what string) {
	if l.unseen == "" {
		l.unseen = what
	}
}

// read adds a command; depth 0 is the line itself, a higher one a text that a
// part runs as a command.
func (l *shellLine) read(command string, depth int) {
	defer func() {
		// The parser has had bugs of this kind on wild input.
		if recover() != nil {
			l.block("it cannot be parsed")
			l.miss("it cannot be parsed")
		}
	}()
	if len(command) > maxShell || depth > maxNested {
		l.block("it is too long to be judged")
		l.miss("it is too long to be judged")
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		l.block("it cannot be parsed")
		l.miss("it cannot be parsed")
		return
	}
	r := reader{l, command, depth}
	syntax.Walk(file, r.visit)
}

type reader struct {
	line   *shellLine
	source string
	depth  int
}

func (r *reader) visit(n syntax.Node) bool {
	l := r.line
	switch n := n.(type) {
	case *syntax.CallExpr:
		r.call(n)
	case *syntax.Stmt:
		if n.Coprocess || n.Disown {
			l.block("it starts a coprocess")
		}
	case *syntax.Redirect:
		r.redirect(n)
	case *syntax.CmdSubst, *syntax.ProcSubst:
		l.block("it holds a command substitution")
	case *syntax.ParamExp, *syntax.ArithmExp:
		l.block("it depends on a variable")
	case *syntax.ExtGlob:
		l.block("it holds an extended pattern")
	case *syntax.FuncDecl:
		l.loops = true
		l.block("it defines a function")
	case *syntax.CoprocClause:
		l.block("it starts a coprocess")
	case *syntax.DeclClause, *syntax.LetClause, *syntax.ArithmCmd:
		l.block("it sets a variable")
	case *syntax.WhileClause:
		l.loops = true
	case *syntax.ForClause:
		l.loops = true
		if _, ok := n.Loop.(*syntax.CStyleLoop); ok {
			l.block("it sets a variable")
		}
	}
	return true
}

func (r *reader) redirect(n *syntax.Redirect) {
	switch n.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return
	}
	if n.N != nil && strings.HasPrefix(n.N.Value, "{") {
		r.line.block("it sets a variable")
	}
	f := shellFile{word: r.word(n.Word), write: n.Op != syntax.RdrIn && n.Op != syntax.DplIn}
	if (n.Op == syntax.DplOut || n.Op == syntax.DplIn) && f.known && strings.Trim(strings.TrimSuffix(f.text, "-"), "0123456789") == "" {
		return // another descriptor
	}
	r.line.redirects = append(r.line.redirects, f)
}

// safeVariables change nothing about which program runs or what it may do.
func safeVariable(name string) bool {
	switch name {
	case "LANG", "LANGUAGE", "TZ", "TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CI", "NODE_ENV",
		"RUST_BACKTRACE", "RUST_LOG", "GOOS", "GOARCH", "CGO_ENABLED", "GO111MODULE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "DEBIAN_FRONTEND":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}

func (r *reader) call(n *syntax.CallExpr) {
	l := r.line
	for _, a := range n.Assigns {
		if len(n.Args) == 0 || a.Name == nil || !safeVariable(a.Name.Value) || a.Append || a.Index != nil || a.Array != nil ||
			a.Value != nil && !r.word(a.Value).known {
			l.block("it sets a variable")
		}
	}
	if len(n.Args) == 0 {
		return
	}
	words := make([]word, len(n.Args))
	for i, a := range n.Args {
		words[i] = r.word(a)
		if !words[i].known && !words[i].globbed {
			l.block("a part of it is known only when it runs")
		}
	}
	r.add(words, r.between(n.Args[0].Pos(), n.Args[len(n.Args)-1].End()))
}

func (r *reader) between(from, to syntax.Pos) string {
	a, b := int(from.Offset()), int(to.Offset())
	if a > b || b > len(r.source) {
		return ""
	}
	return r.source[a:b]
}

func (r *reader) add(words []word, source string) {
	l := r.line
	if len(l.parts) >= maxParts {
		l.block("it is too long to be judged")
		l.miss("it is too long to be judged")
		return
	}
	p := shellPart{words: words, inner: r.depth > 0}
	p.texts = append(p.texts, textOf(words))
	if source != "" {
		p.texts = append(p.texts, source)
	}
	for {
		skip, fed, ok := wrapper(p.words)
		if !ok {
			break
		}
		p.fed = p.fed || fed
		p.words = p.words[skip:]
		text := textOf(p.words)
		if fed {
			// Only a rule that leaves the arguments open may match.
			text += ` "$@"`
		}
		p.texts = append(p.texts, text)
	}
	l.parts = append(l.parts, p)
	if !p.words[0].known {
		l.miss("the name of a program is known only when it runs")
		return
	}
	if name := p.words[0].text; name == "cd" || name == "pushd" || name == "popd" {
		l.change(p)
	}
	r.started(p.words)
}

// change notes where cd leads.
func (l *shellLine) change(p shellPart) {
	args := slices.DeleteFunc(slices.Clone(p.words[1:]), func(w word) bool {
		return w.known && (w.text == "--" || w.text == "-P" || w.text == "-L")
	})
	if p.words[0].text == "popd" || len(args) != 1 || !args[0].known || strings.HasPrefix(args[0].text, "-") || strings.HasPrefix(args[0].text, "+") {
		l.strayed = true
		return
	}
	l.dirs = append(l.dirs, args[0])
}

// started adds the commands that a command is seen to start.
func (r *reader) started(words []word) {
	inner := reader{r.line, "", r.depth + 1}
	if r.depth >= maxNested {
		r.line.miss("it is too long to be judged")
		return
	}
	name, args := path.Base(words[0].text), words[1:]
	if name != words[0].text {
		// A rule about rm is one about /bin/rm, too.
		again := slices.Clone(words)
		again[0].text = name
		inner.add(again, "")
		return
	}
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "fish":
		for i, w := range args {
			if !w.known {
				r.line.miss("what a shell runs is known only when it runs")
				return
			}
			if strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "c") {
				r.texts(args[i+1:], 1)
				return
			}
		}
		if !slices.ContainsFunc(args, func(w word) bool { return isProgram(w.text) }) {
			r.line.miss("a shell reads what it runs from its input")
		}
	case "su", "runuser", "script":
		for i, w := range args {
			if w.known && (w.text == "-c" || w.text == "--command") {
				r.texts(args[i+1:], 1)
			}
		}
	case "eval", "trap":
		r.texts(args, len(args))
	case "watch", "parallel":
		r.launched(args, false)
		for i, w := range args {
			if strings.Contains(w.text, " ") {
				r.texts(args[i:], 1)
			}
		}
	case "find", "fd":
		for i, w := range args {
			switch w.text {
			case "-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch":
				if rest := args[i+1:]; len(rest) > 0 {
					inner.add(rest, "")
				}
			}
		}
	case "git":
		if at := gitCommand(args); at > 0 {
			inner.add(append([]word{words[0]}, args[at:]...), "")
		}
	default:
		if isLauncher(name) {
			r.launched(args, name == "flock" || name == "chroot" || name == "timeout" || name == "taskset" || name == "chrt")
		}
	}
}

// texts reads words, taken together, as a command.
func (r *reader) texts(words []word, most int) {
	var text []string
	for _, w := range words[:min(most, len(words))] {
		if !w.known {
			r.line.miss("what a shell runs is known only when it runs")
			return
		}
		text = append(text, w.text)
	}
	outer := r.line.opaque
	r.line.read(strings.Join(text, " "), r.depth+1)
	// The part that runs the text is what has to be allowed.
	r.line.opaque = outer
}

// launched adds what a launcher may start. Which options take a value is not
// known for all, so a word behind an option counts as a value and as the program;
// operand says that the launcher takes a word of its own first.
func (r *reader) launched(args []word, operand bool) {
	inner := reader{r.line, "", r.depth + 1}
	for i, w := range args {
		switch {
		case !w.known:
			r.line.miss("the name of a program is known only when it runs")
			return
		case i == maxLaunched:
			r.line.miss("it is too long to be judged")
			return
		case !isProgram(w.text):
			continue
		}
		if !r.line.launched[&args[i]] { // by a launcher in front of this one
			if r.line.launched == nil {
				r.line.launched = map[*word]bool{}
			}
			r.line.launched[&args[i]] = true
			inner.add(args[i:], "")
		}
		if i == 0 || !strings.HasPrefix(args[i-1].text, "-") || args[i-1].text == "--" {
			if !operand {
				return
			}
			operand = false
		}
	}
}

// isProgram: a word that can be the name of a program, and no option or
// assignment.
func isProgram(text string) bool {
	return text != "" && !strings.HasPrefix(text, "-") && !strings.Contains(text, "=")
}

func isLauncher(name string) bool {
	switch name {
	case "env", "sudo", "doas", "exec", "setsid", "ionice", "chrt", "taskset", "xargs", "chroot", "unshare", "nsenter", "flock",
		"strace", "ltrace", "unbuffer", "busybox", "toybox", "time", "timeout", "nice", "nohup", "stdbuf", "command", "builtin",
		"rlwrap", "proxychains", "proxychains4", "bwrap", "firejail", "systemd-run", "pkexec", "setpriv", "prlimit", "coproc":
		return true
	}
	return false
}

// gitCommand gives the place of git's command behind options that stand in
// front of it, 0 when there are none.
func gitCommand(args []word) int {
	for i := 0; i < len(args); i++ {
		switch text := args[i].text; {
		case !strings.HasPrefix(text, "-"):
			return i
		case text == "-C" || text == "-c" || text == "--git-dir" || text == "--work-tree" || text == "--namespace" || text == "--exec-path" || text == "--config-env":
			i++
		}
	}
	return 0
}

// wrapper gives how many words a wrapper takes that may be looked through (spec
// stream-json 7.2); fed: it adds arguments of its own.
func wrapper(words []word) (skip int, fed, ok bool) {
	if !words[0].known {
		return 0, false, false
	}
	option := func(i int) string {
		if i < len(words) && words[i].known {
			return words[i].text
		}
		return "-?" // no wrapper's
	}
	skip = 1
	switch words[0].text {
	case "nohup", "builtin", "command":
	case "time":
		if option(1) == "-p" {
			skip++
		}
	case "nice":
		switch o := option(1); {
		case o == "-n":
			skip += 2
		case len(o) > 1 && o[0] == '-' && strings.Trim(strings.TrimPrefix(o[1:], "n"), "-0123456789") == "" || strings.HasPrefix(o, "--adjustment="):
			skip++
		}
	case "stdbuf":
		for strings.HasPrefix(option(skip), "-") && len(option(skip)) == 3 && strings.IndexByte("ioe", option(skip)[1]) >= 0 {
			skip++
		}
	case "timeout":
		for strings.HasPrefix(option(skip), "-") {
			switch o := option(skip); {
			case o == "-k" || o == "-s" || o == "--kill-after" || o == "--signal":
				skip += 2
			case o == "--foreground" || o == "--preserve-status" || o == "-v" || o == "--verbose" ||
				strings.HasPrefix(o, "--kill-after=") || strings.HasPrefix(o, "--signal="):
				skip++
			default:
				return 0, false, false
			}
		}
		skip++ // the duration
	case "xargs":
		fed = true
	default:
		return 0, false, false
	}
	if skip >= len(words) || !words[skip].known || !isProgram(words[skip].text) {
		return 0, false, false
	}
	return skip, fed, true
}

// textOf writes words as a command.
func textOf(words []word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		if !w.known {
			b.WriteString(w.text)
			continue
		}
		quoted, err := syntax.Quote(w.text, syntax.LangBash)
		if err != nil {
			quoted = w.text
		}
		b.WriteString(quoted)
	}
	return b.String()
}

// word evaluates a word as far as that is certain.
func (r *reader) word(w *syntax.Word) word {
	v := r.value(w)
	v.moved = len(r.line.dirs)
	return v
}

func (r *reader) value(w *syntax.Word) word {
	var b strings.Builder
	known, globbed := true, false
	for i, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			text, glob := bare(part.Value)
			if i == 0 && strings.HasPrefix(part.Value, "~") && part.Value != "~" && !strings.HasPrefix(part.Value, "~/") {
				known = false // somebody's home
			}
			globbed = globbed || glob
			b.WriteString(text)
		case *syntax.SglQuoted:
			text, ok := single(part)
			known = known && ok
			b.WriteString(text)
		case *syntax.DblQuoted:
			for _, inner := range part.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					known = false
					continue
				}
				b.WriteString(double(lit.Value))
			}
		default:
			known = false
		}
	}
	if known && !globbed {
		return word{text: b.String(), known: true}
	}
	if source := r.between(w.Pos(), w.End()); source != "" {
		return word{text: source, globbed: known}
	}
	return word{text: b.String(), globbed: known}
}

// bare takes the backslashes out of unquoted text and says whether the shell
// would make other words of it.
func bare(s string) (text string, glob bool) {
	if !strings.ContainsAny(s, `\*?[{`) {
		return s, false
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			if i++; s[i] != '\n' {
				b.WriteByte(s[i])
			}
			continue
		case strings.IndexByte("*?[", c) >= 0:
			glob = true
		case c == '{' && !strings.HasPrefix(s[i:], "{}"):
			glob = true
		}
		b.WriteByte(s[i])
	}
	return b.String(), glob
}

func single(q *syntax.SglQuoted) (string, bool) {
	if !q.Dollar {
		return q.Value, true
	}
	text, _, err := expand.Format(nil, q.Value, nil)
	if at := strings.IndexByte(text, 0); at >= 0 {
		text = text[:at]
	}
	// Format knows the escapes of $'…' and those of printf, too.
	return text, err == nil && !strings.Contains(q.Value, "%")
}

// double takes out the backslashes that mean something between double quotes.
func double(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
