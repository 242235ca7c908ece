package streamflags

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"dsh/kernel/profile"
	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// Line is a command line that has been read. Nothing has been done for it: no
// file was opened.
type Line struct {
	// Print says that one prompt is to be answered. Prompt is what stood beside the
	// flags, Prompted that something did.
	Print, Prompted bool
	Prompt          string
	// Help and Version ask for that and nothing else, DumpConfig for the profile.
	Help, Version, DumpConfig bool
	// Input and Output are the formats.
	Input, Output string
	// Profile, Home, LogLevel, Patches and Sets are those of every program here; ""
	// and nil where nothing was said.
	Profile, Home, LogLevel string
	Patches, Sets           []string
	// SessionID is the id that the flags give the session, or name it by.
	SessionID string
	// Ephemeral asks for a session that is not kept.
	Ephemeral bool
	// Debug asks for a log of everything, DebugFile says where; with DebugToStderr
	// it goes there.
	Debug, DebugToStderr bool
	DebugFile            string
	// Notes are what whoever gave the flags should know.
	Notes []string

	flags  []flag
	values map[string][]string // by the name of the flag, in the order given
}

// Stream says whether a client speaks the protocol on standard input.
func (l *Line) Stream() bool { return l.Input == formatStream }

// Parse reads the arguments behind the program's name. With serve, a line without
// a prompt and a format is one that serves the protocol. Its error is what is
// wrong with the command line (spec stream-json 1.7: a usage error).
func Parse(args []string, serve bool) (*Line, error) {
	l := &Line{flags: table(), values: map[string][]string{}}
	if err := l.read(args); err != nil {
		return nil, err
	}
	if l.Help || l.Version {
		return l, nil
	}
	if serve && !l.Prompted && !l.on("print") && !l.given("input-format") && !l.given("output-format") {
		l.values["input-format"], l.values["output-format"] = []string{formatStream}, []string{formatStream}
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	return l, nil
}

// read takes the arguments apart.
func (l *Line) read(args []string) error {
	prompts := 0
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			for _, rest := range args {
				l.Prompt = rest
				prompts++
			}
			break
		}
		if !isFlag(arg) {
			l.Prompt = arg
			prompts++
			continue
		}
		name, value, given := strings.Cut(arg, "=")
		f := l.find(name)
		if f == nil {
			return l.unknown(name)
		}
		switch {
		case f.kind == kindSwitch:
			if !given {
				value = "true"
			}
			if value != "true" && value != "false" {
				return fmt.Errorf("--%s takes nothing, or =true or =false, not %q", f.name, value)
			}
		case !given && f.kind == kindOptional:
			if value = ""; len(args) > 0 && !isFlag(args[0]) && args[0] != "--" {
				value, args = args[0], args[1:]
			}
		case !given:
			if len(args) == 0 || isFlag(args[0]) {
				return fmt.Errorf("--%s needs a value: --%s %s%s", f.name, f.name, f.value, dashed(args))
			}
			value, args = args[0], args[1:]
		}
		l.values[f.name] = append(l.values[f.name], value)
		for f.kind == kindList && !given && len(args) > 0 && !isFlag(args[0]) && args[0] != "--" {
			l.values[f.name] = append(l.values[f.name], args[0])
			args = args[1:]
		}
	}
	if prompts > 1 {
		return fmt.Errorf("there is more than one prompt, the last is %q; put a prompt of several words into quotes", l.Prompt)
	}
	l.Prompted = prompts > 0
	l.Help, l.Version = l.on("help"), l.on("version")
	return nil
}

// dashed explains why what follows a flag is not taken as its value.
func dashed(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return "; a value that begins with - is written behind an equals sign"
}

// isFlag reports whether an argument has the form of a flag. What else begins
// with a dash, a number or a list item of a prompt, is none.
func isFlag(arg string) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	if name == arg || name == "" {
		return false
	}
	name, _, _ = strings.Cut(name, "=")
	for i := range len(name) {
		c := name[i] | 0x20
		if (c < 'a' || c > 'z') && (i == 0 || name[i] != '-' && name[i] != '_' && (name[i] < '0' || name[i] > '9')) {
			return false
		}
	}
	return name != ""
}

// find gives the flag of an argument as it was spelled, without its value.
func (l *Line) find(arg string) *flag {
	long, isLong := strings.CutPrefix(arg, "--")
	short := strings.TrimPrefix(arg, "-")
	for i := range l.flags {
		f := &l.flags[i]
		switch {
		case isLong && f.name == long:
			return f
		case isLong:
			if slices.Contains(f.others, long) && len(long) > 1 {
				return f
			}
		case slices.Contains(f.others, short) && len(short) < 4:
			return f
		}
	}
	return nil
}

func (l *Line) unknown(arg string) error {
	var known []string
	for _, f := range l.flags {
		known = append(known, "--"+f.name)
		for _, other := range f.others {
			if len(other) > 3 {
				known = append(known, "--"+other)
			}
		}
	}
	hint := profile.DidYouMean(arg, known)
	switch long := "-" + arg; {
	case slices.Contains(known, long): // one dash too few
		hint = fmt.Sprintf("; did you mean %q?", long)
	case hint == "":
		hint = "; --help lists the flags"
	}
	return fmt.Errorf("unknown flag %s%s", arg, hint)
}

// on reports whether a switch is set.
func (l *Line) on(name string) bool { return l.last(name) == "true" }

func (l *Line) given(name string) bool { return len(l.values[name]) > 0 }

// last gives the value of a flag that counts.
func (l *Line) last(name string) string {
	values := l.values[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// check looks at every value by itself, then at what does not go together.
func (l *Line) check() error {
	var errs []error
	for i := range l.flags {
		f := &l.flags[i]
		if !l.given(f.name) {
			continue
		}
		value := l.last(f.name)
		if f.words != nil && !slices.Contains(f.words, value) {
			errs = append(errs, fmt.Errorf("--%s %q is not known; use %s%s", f.name, value, strings.Join(f.words, ", "), profile.DidYouMean(value, f.words)))
			continue
		}
		if _, err := f.form.json(l.values[f.name]); err != nil {
			errs = append(errs, fmt.Errorf("--%s %w", f.name, err))
		}
		if f.ignored != "" && f.told {
			l.Notes = append(l.Notes, fmt.Sprintf("--%s has no effect: %s", f.name, f.ignored))
		}
	}
	l.settle()
	errs = append(errs, l.conflicts()...)
	return errors.Join(errs...)
}

// settle fills in what the program itself acts upon.
func (l *Line) settle() {
	l.Print, l.DumpConfig = l.on("print"), l.on("dump-config")
	l.Input, l.Output = formatText, formatText
	if l.given("input-format") {
		l.Input = l.last("input-format")
	}
	if l.given("output-format") {
		l.Output = l.last("output-format")
	}
	l.Profile, l.Home, l.LogLevel = l.last("profile"), l.last("data-dir"), l.last("log-level")
	l.Patches, l.Sets = l.values["patch"], l.values["set"]
	l.Ephemeral = l.on("no-session-persistence")
	l.DebugFile, l.DebugToStderr = l.last("debug-file"), l.on("debug-to-stderr")
	l.Debug = l.given("debug") && l.last("debug") != "false" || l.DebugFile != "" || l.DebugToStderr
	if l.SessionID = l.last("session-id"); l.SessionID == "" {
		l.SessionID = l.last("resume")
	}
}

// conflicts finds flags that do not go together.
func (l *Line) conflicts() (errs []error) {
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(l.Stream() && l.Output != formatStream, "--input-format stream-json needs --output-format stream-json")
	add(l.given("resume") && l.last("resume") == "", "--resume needs the id of a session; --continue takes the newest one of this folder")
	add(l.given("resume") && l.on("continue"), "--resume and --continue exclude each other")
	add(l.given("session-id") && (l.given("resume") || l.on("continue")) && !l.on("fork-session"),
		"--session-id is the id of a new session: with --resume or --continue it needs --fork-session")
	add(l.last("resume-session-at") != "" && !l.given("resume") && !l.on("continue"), "--resume-session-at needs --resume or --continue")
	for _, name := range []string{"system-prompt", "append-system-prompt"} {
		add(l.given(name) && l.given(name+"-file"), "--%s and --%s-file exclude each other", name, name)
	}
	mode := l.last("permission-mode")
	add(l.on("dangerously-skip-permissions") && mode != "" && mode != modeBypass, "--dangerously-skip-permissions and --permission-mode %s exclude each other", mode)
	tokens := l.last("max-thinking-tokens")
	add(l.last("thinking") == "disabled" && tokens != "" && strings.Trim(tokens, "0") != "", "--thinking disabled and --max-thinking-tokens %s exclude each other", tokens)
	if tool := l.last("permission-prompt-tool"); l.given("permission-prompt-tool") && tool != promptStdio {
		server, name, _ := strings.Cut(strings.TrimPrefix(tool, mcpPrefix), "__")
		add(!strings.HasPrefix(tool, mcpPrefix) || server == "" || name == "", "--permission-prompt-tool %q is neither stdio nor an MCP tool mcp__SERVER__TOOL", tool)
	}
	for _, source := range sources(l.last("setting-sources")) {
		add(!slices.Contains(settingSources(), source), "--setting-sources has no %q; use %s%s", source, strings.Join(settingSources(), ", "), profile.DidYouMean(source, settingSources()))
	}
	return errs
}

const (
	promptStdio = "stdio"
	mcpPrefix   = "mcp__"
)

func settingSources() []string { return []string{"user", "project", "local"} }

func sources(list string) []string { return split(list, false) }

// json writes the values of a flag as JSON, or says what is wrong with the one
// that counts.
func (f form) json(values []string) (string, error) {
	last := values[len(values)-1]
	switch f {
	case formText:
		return quote(last), nil
	case formTrue:
		return last, nil
	case formCount, formCount0:
		least := int64(0)
		if f == formCount {
			least = 1
		}
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < least || n > math.MaxInt32 {
			return "", fmt.Errorf("%q is no number that can be used; use a whole number, %d or more", last, least)
		}
		return strconv.FormatInt(n, 10), nil
	case formMoney:
		n, err := strconv.ParseFloat(last, 64)
		if err != nil || !(n > 0) || math.IsInf(n, 0) {
			return "", fmt.Errorf("%q is no amount of US dollars; use a number above 0, such as 2.50", last)
		}
		return strconv.FormatFloat(n, 'f', -1, 64), nil
	case formUUID:
		if id, err := uuid.Parse(last); err != nil || len(last) != len(id.String()) {
			return "", fmt.Errorf("%q is no UUID; write one like 6f0c0b9e-3f0e-4b0e-9a55-1d0a7d8f6f11", last)
		}
		return quote(strings.ToLower(last)), nil
	case formWords:
		return list(splitAll(values, false)), nil
	case formRules:
		return list(splitAll(values, true)), nil
	case formTexts:
		return list(values), nil
	case formObject:
		return object(last)
	case formSchema:
		text, err := object(last)
		if err == nil {
			_, err = tool.NewChecker(json.RawMessage(text))
		}
		return text, err
	}
	return "", nil
}

// object checks that text is one JSON object. The text itself may hold secrets
// and is not repeated.
func object(text string) (string, error) {
	var members map[string]any
	if err := wirejson.UnmarshalStrict([]byte(text), &members); err != nil {
		return "", fmt.Errorf("is no JSON object: %w", err)
	}
	if members == nil {
		return "", errors.New("is no JSON object: it is null")
	}
	return text, nil
}

func quote(text string) string { return string(wirejson.AppendString(nil, text)) }

// list writes texts as a JSON array.
func list(texts []string) string {
	out := []byte{'['}
	for i, text := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = wirejson.AppendString(out, text)
	}
	return string(append(out, ']'))
}

func splitAll(values []string, rules bool) []string {
	var all []string
	for _, v := range values {
		all = append(all, split(v, rules)...)
	}
	return all
}

// split parts a list at commas, with rules at white space, too, outside of
// parentheses (spec stream-json 7.2).
func split(text string, rules bool) []string {
	var parts []string
	depth, begin := 0, 0
	end := func(i int) {
		if part := strings.TrimSpace(text[begin:i]); part != "" {
			parts = append(parts, part)
		}
		begin = i + 1
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case rules && c == '\\':
			i++ // an escaped parenthesis is part of a rule
		case rules && c == '(':
			depth++
		case rules && c == ')' && depth > 0:
			depth--
		case depth > 0:
		case c == ',' || rules && (c == ' ' || c == '\t' || c == '\n'):
			end(i)
		}
	}
	end(len(text))
	return parts
}
