package permissions

import (
	"slices"
	"strings"
)

// effect is what a simple command of a known kind does to files.
type effect struct {
	// reads and writes are its operands; other words of the command name no files.
	reads, writes []word
	// destroys: the writes may take whole folders away.
	destroys bool
	// deep: what lies below a folder that is read is read, too.
	deep bool
}

// readOnly says what a command reads when it is one of those that change nothing
// whatever their arguments are (spec stream-json 7.2); false when it is none of
// them or has an option that is not known to be harmless. A word that the shell
// replaces by names of files may become an option, so only programs without a
// harmful one may have it.
func readOnly(p shellPart) (effect, bool) {
	words := p.words
	if p.fed || !words[0].known {
		return effect{}, false
	}
	name, args := words[0].text, words[1:]
	for _, w := range args {
		if !w.known && !w.globbed {
			return effect{}, false
		}
	}
	switch name {
	case "echo", "true", "false", "pwd", ":", "whoami", "id", "uname", "arch", "nproc", "uptime", "free", "groups", "seq", "sleep", "printenv",
		"basename", "dirname", "which", "type", "tr", "expr":
		return effect{}, true
	case "printf":
		return effect{}, !has(args, "-v")
	case "hostname":
		return effect{}, len(args) == 0
	case "command":
		return effect{}, len(args) > 0 && (args[0].text == "-v" || args[0].text == "-V")
	case "date":
		return effect{}, !slices.ContainsFunc(args, func(w word) bool {
			return !w.known || !strings.HasPrefix(w.text, "+") && !slices.Contains([]string{"-u", "-R", "-I", "--utc", "--iso-8601"}, w.text)
		})
	case "cd", "ls", "cat", "head", "tail", "wc", "stat", "du", "df", "readlink", "realpath", "nl", "tac", "rev", "cut", "column", "fold", "ps",
		"expand", "unexpand", "paste", "join", "comm", "cmp", "od", "strings", "md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum",
		"test", "[", "diff":
		return effect{reads: operands(args)}, true
	case "file":
		return effect{reads: operands(args)}, plain(args) && !slices.ContainsFunc(args, func(w word) bool { return isBundle(w.text) && strings.Contains(w.text, "C") }) &&
			!hasPrefix(args, "--c")
	case "grep", "egrep", "fgrep":
		deep := hasPrefix(args, "--r", "--d", "--dereference-recursive") ||
			slices.ContainsFunc(args, func(w word) bool { return isBundle(w.text) && strings.ContainsAny(w.text, "rRd") })
		return effect{reads: here(searched(args), deep), deep: deep}, true
	case "rg":
		return effect{reads: here(searched(args), true), deep: true}, plain(args) && !hasPrefix(args, "--pre", "--hostname-bin", "-z", "--search-zip")
	case "sort":
		return effect{reads: operands(args)}, plain(args) && !hasPrefix(args, "-o", "--o", "--compress", "-T", "--temp", "--files0") &&
			!slices.ContainsFunc(args, func(w word) bool { return isBundle(w.text) && strings.ContainsAny(w.text, "oT") })
	case "uniq":
		return effect{reads: operands(args)}, plain(args) && len(operands(args)) <= 1
	case "tree":
		return effect{reads: operands(args)}, plain(args) && !hasPrefix(args, "-o", "--output") &&
			!slices.ContainsFunc(args, func(w word) bool { return isBundle(w.text) && strings.Contains(w.text, "o") })
	case "jq":
		return effect{reads: searched(args)}, plain(args)
	case "find":
		return effect{reads: operands(args)}, plain(args) && !hasPrefix(args, "-exec", "-ok", "-delete", "-fprint", "-fls", "-files0")
	case "sed":
		script, files, ok := sedParts(args)
		return effect{reads: files}, ok && !script.inPlace
	case "git":
		return readOnlyGit(args)
	}
	return effect{}, false
}

// plain: no word is a pattern for names of files.
func plain(args []word) bool {
	return !slices.ContainsFunc(args, func(w word) bool { return !w.known })
}

func has(args []word, option string) bool {
	return slices.ContainsFunc(args, func(w word) bool { return w.text == option })
}

func hasPrefix(args []word, options ...string) bool {
	return slices.ContainsFunc(args, func(w word) bool {
		return slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(w.text, o) })
	})
}

// isBundle: several short options in one word.
func isBundle(text string) bool { return len(text) > 1 && text[0] == '-' && text[1] != '-' }

// operands gives the words that may name files: what is no option, and what
// hangs on one. Behind "--" all do.
func operands(args []word) []word {
	var found []word
	for i, w := range args {
		switch {
		case w.known && w.text == "--":
			return append(found, args[i+1:]...)
		case !strings.HasPrefix(w.text, "-") || w.text == "-":
			if w.text != "-" && w.text != "" {
				found = append(found, w)
			}
		default:
			if at := strings.IndexAny(w.text, "=/~"); at > 0 {
				value := w
				value.text = strings.TrimPrefix(w.text[at:], "=")
				found = append(found, value)
			}
		}
	}
	return found
}

// searched is operands without the pattern that comes first.
func searched(args []word) []word {
	all := operands(args)
	if hasPrefix(args, "-e", "-f", "--regexp", "--file", "--from-file") {
		return all
	}
	for i, w := range args {
		if w.text == "--" || strings.HasPrefix(w.text, "-") {
			continue
		}
		for j, o := range all {
			if o == args[i] {
				return slices.Delete(slices.Clone(all), j, j+1)
			}
		}
	}
	return all
}

// here puts the folder itself where a search names no place.
func here(files []word, deep bool) []word {
	if deep && len(files) == 0 {
		return []word{{text: ".", known: true}}
	}
	return files
}

// readOnlyGit knows the commands of git that only look. Options in front of
// them and those that start programs or write files are left out.
func readOnlyGit(args []word) (effect, bool) {
	if len(args) == 0 || !plain(args) || strings.HasPrefix(args[0].text, "-") && args[0].text != "--version" ||
		hasPrefix(args, "--output", "--ext-diff", "--textconv", "--open-files-in-pager", "-O", "--exec", "--upload-pack", "--contents", "--filters") {
		return effect{}, false
	}
	rest := args[1:]
	options := func(known ...string) bool {
		return !slices.ContainsFunc(rest, func(w word) bool { return !slices.Contains(known, w.text) })
	}
	switch args[0].text {
	case "--version", "status", "log", "diff", "show", "blame", "rev-parse", "ls-files", "ls-tree", "describe", "shortlog", "rev-list",
		"cat-file", "merge-base", "show-ref", "name-rev", "diff-tree", "for-each-ref":
		return effect{reads: pathsOf(rest)}, true
	case "grep":
		return effect{reads: here(nil, true), deep: true}, true
	case "branch":
		return effect{}, options("-a", "-r", "-v", "-vv", "--list", "--all", "--remotes", "--show-current")
	case "tag":
		return effect{}, options("-l", "--list")
	case "remote":
		return effect{}, options("-v", "--verbose")
	case "stash":
		return effect{}, len(rest) == 1 && rest[0].text == "list"
	}
	return effect{}, false
}

// pathsOf leaves out what cannot be the name of a file outside: revisions and
// names relative to the folder.
func pathsOf(args []word) []word {
	return slices.DeleteFunc(operands(args), func(w word) bool {
		return !strings.HasPrefix(w.text, "/") && !strings.HasPrefix(w.text, "~") && strings.Contains(w.text, "..") && !strings.Contains(w.text, "../")
	})
}

// edits says what a command writes when it is one of those that mode acceptEdits
// lets run (spec stream-json 7.1); false when it is none of them, or has an
// option that is not known.
func edits(p shellPart) (effect, bool) {
	words := p.words
	if p.fed || !plain(words) {
		return effect{}, false
	}
	args := words[1:]
	only := func(letters string, long ...string) bool {
		for _, w := range args {
			switch {
			case w.text == "--":
				return true
			case isBundle(w.text) && strings.Trim(w.text[1:], letters) != "":
				return false
			case strings.HasPrefix(w.text, "--") && !slices.Contains(long, w.text):
				return false
			}
		}
		return true
	}
	files := operands(args)
	switch words[0].text {
	case "mkdir":
		return effect{writes: files}, only("pv", "--parents", "--verbose")
	case "touch":
		return effect{writes: files}, only("acm", "--no-create")
	case "rmdir":
		return effect{writes: files, destroys: true}, only("pv", "--parents", "--verbose")
	case "rm":
		return effect{writes: files, destroys: true}, only("rRfdvI", "--recursive", "--force", "--dir", "--verbose")
	case "mv":
		return effect{writes: files, destroys: true}, only("fnv", "--force", "--no-clobber", "--verbose")
	case "cp":
		if len(files) < 2 {
			return effect{}, false
		}
		return effect{reads: files[:len(files)-1], writes: files[len(files)-1:]}, only("rRafpnvuLPHd", "--recursive", "--archive", "--force", "--no-clobber", "--verbose", "--update")
	case "sed":
		script, files, ok := sedParts(args)
		if !script.inPlace {
			return effect{reads: files}, ok
		}
		return effect{writes: files}, ok
	}
	return effect{}, false
}

type sedScript struct{ inPlace bool }

// sedParts takes a sed command apart; false when one of its scripts could do more
// than print or change lines.
func sedParts(args []word) (s sedScript, files []word, ok bool) {
	if !plain(args) {
		return s, nil, false
	}
	scripts := 0
	for i := 0; i < len(args); i++ {
		switch text := args[i].text; {
		case text == "-n" || text == "-E" || text == "-r" || text == "-s" || text == "-u" || text == "--quiet" || text == "--posix":
		case text == "-i" || text == "--in-place":
			s.inPlace = true
		case text == "-ne" || text == "-e" || text == "--expression":
			if i++; i >= len(args) || !harmlessSed(args[i].text) {
				return s, nil, false
			}
			scripts++
		case strings.HasPrefix(text, "-"):
			return s, nil, false
		default:
			files = append(files, args[i])
		}
	}
	if scripts == 0 {
		if len(files) == 0 || !harmlessSed(files[0].text) {
			return s, nil, false
		}
		files = files[1:]
	}
	return s, files, true
}

// harmlessSed knows two kinds of script: one command p, d, q or = behind numbers
// of lines, and one substitution. Others may write files or start programs.
func harmlessSed(script string) bool {
	rest := strings.TrimLeft(strings.TrimSpace(script), "0123456789,$")
	if rest == "" || strings.Contains(rest, "\n") {
		return false
	}
	switch rest[0] {
	case 'p', 'd', 'q', '=':
		return len(rest) == 1
	case 's':
	default:
		return false
	}
	if len(rest) < 4 || strings.IndexByte("/|#,:@!%_", rest[1]) < 0 {
		return false
	}
	cuts := 0
	for i := 2; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case rest[1]:
			if cuts++; cuts == 2 {
				return strings.Trim(rest[i+1:], "gpiI0123456789") == ""
			}
		}
	}
	return false
}

// touches gives the files that any other command may be about, for rules that
// refuse: every word may be one, and be read or written.
func touches(p shellPart) effect {
	if e, ok := readOnly(p); ok {
		return e
	}
	if e, ok := edits(p); ok {
		return e
	}
	files := operands(p.words[1:])
	return effect{reads: files, writes: files}
}
