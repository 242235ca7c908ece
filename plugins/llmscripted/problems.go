package llmscripted

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// problems collects what is wrong with one value of a script, in the form of the
// YAML decoder ("line 3: what"), so that the decoder joins it with the rest.
type problems struct {
	line  int
	found []string
}

func (p *problems) none() bool { return len(p.found) == 0 }

func (p *problems) say(format string, args ...any) {
	p.found = append(p.found, fmt.Sprintf("line %d: ", p.line)+fmt.Sprintf(format, args...))
}

// add takes up what the decoder found below.
func (p *problems) add(err error) {
	var below *yaml.TypeError
	switch {
	case errors.As(err, &below):
		p.found = append(p.found, below.Errors...)
	case err != nil:
		p.say("%v", err)
	}
}

func (p *problems) err() error {
	if p.none() {
		return nil
	}
	return &yaml.TypeError{Errors: p.found}
}

func (p *problems) text(key, s string) text {
	t, err := parseText(key, s)
	if err != nil {
		p.say("%v", err)
	}
	return t
}

func (p *problems) duration(key string, d *time.Duration) time.Duration {
	if *d < 0 {
		p.say("%s: %v is less than 0", key, *d)
	}
	return *d
}

var decoderLine = lazily(`(?s)^(?:yaml: )?(?:line ([0-9]+): )?(.*)$`)

// lineOf gives the line of a value. The decoder tells it in one place only: in
// what it says of a value that does not fit.
func lineOf(decode func(any) error) int {
	var below *yaml.TypeError
	if !errors.As(decode(new(chan int)), &below) {
		return 0
	}
	line, _ := strconv.Atoi(decoderLine().FindStringSubmatch(below.Errors[0])[1])
	return line
}

// explain puts the decoder's errors into words for the author of a script, in
// the order of the lines.
func explain(name string, err error) error {
	texts := []string{err.Error()}
	var several *yaml.TypeError
	if errors.As(err, &several) {
		texts = several.Errors
	}
	type finding struct {
		line int
		err  error
	}
	var all []finding
	for _, t := range texts {
		parts := decoderLine().FindStringSubmatch(t)
		line, _ := strconv.Atoi(parts[1])
		if countsFromZero().MatchString(parts[2]) {
			line++
		}
		at := name
		if line > 0 {
			at = fmt.Sprintf("%s:%d", name, line)
		}
		all = append(all, finding{line, fmt.Errorf("%s: %s", at, plainWords(parts[2]))})
	}
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
	errs := make([]error, len(all))
	for i := range all {
		errs[i] = all[i].err
	}
	return errors.Join(errs...)
}

var (
	// countsFromZero marks the errors of the YAML grammar, whose lines the decoder
	// counts from 0.
	countsFromZero = lazily(`^did not find expected (key|node content|'-' indicator|<document start>|',' or '[\]}]')`)
	unknownField   = lazily(`(?s)^field (.*) not found in type llmscripted\.(\w+)$`)
	doubleKey      = lazily(`(?s)^mapping key (".*") already defined at line ([0-9]+)$`)
	cannotUse      = lazily("(?s)^cannot unmarshal !!(\\w+)(?: (`.*`))? into (.+)$")
)

func plainWords(s string) string {
	if m := unknownField().FindStringSubmatch(s); m != nil {
		return fmt.Sprintf("unknown key %q; known here: %s", m[1], strings.Join(keysOf(m[2]), ", "))
	}
	if m := doubleKey().FindStringSubmatch(s); m != nil {
		return fmt.Sprintf("the key %s is on line %s already; keep one of the two", m[1], m[2])
	}
	if m := cannotUse().FindStringSubmatch(s); m != nil {
		got := m[2]
		switch m[1] {
		case "map":
			got = "a mapping"
		case "seq":
			got = "a list"
		}
		return fmt.Sprintf("%s does not fit here; write %s", got, wanted(m[3]))
	}
	return s
}

// forms are the mappings of a script by the name the decoder has for them.
func forms() map[string]reflect.Type {
	byName := map[string]reflect.Type{}
	for _, form := range []any{scriptForm{}, ruleForm{}, whenForm{}, itemForm{}, callForm{}, usageForm{}, errorForm{}} {
		t := reflect.TypeOf(form)
		byName[t.Name()] = t
	}
	return byName
}

func keysOf(form string) []string {
	t, ok := forms()[form]
	if !ok {
		return nil
	}
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i] = t.Field(i).Tag.Get("yaml")
	}
	return keys
}

func wanted(goType string) string {
	switch goType {
	case "int", "int64":
		return "a whole number"
	case "bool":
		return "true or false"
	case "string":
		return "text"
	case "time.Duration":
		return "a duration with its unit, such as 50ms or 2s"
	case "map[string]interface {}":
		return "a mapping"
	}
	if strings.HasPrefix(goType, "[]") {
		return "a list"
	}
	return "a mapping of " + strings.Join(keysOf(strings.TrimPrefix(goType, "llmscripted.")), ", ")
}

// lazily compiles a pattern when it is first needed: most scripts are right.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
