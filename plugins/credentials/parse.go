package credentials

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// lineError is a line that cannot be read. It never quotes the line, which may
// be a secret.
type lineError struct {
	line int
	msg  string
}

func (e *lineError) Error() string { return fmt.Sprintf("%d: %s", e.line, e.msg) }

// parseYAML reads the part of YAML that a flat mapping of names to short texts
// takes: NAME: value on a line each, plain, in single or in double quotes, with
// comments. Everything else is refused, never read as something different.
func parseYAML(data []byte) (map[string]string, error) {
	return parse(data, func(line string, first bool) (name, value string, err string) {
		if first && (line == "---" || strings.HasPrefix(line, "--- #")) {
			return "", "", ""
		}
		name, rest, ok := strings.Cut(line, ":")
		switch {
		case !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t':
			return "", "", "must be `NAME: value`"
		case !validName(name), null(name):
			return "", "", "the name before the colon must begin the line and have letters, digits and _ only"
		}
		rest = strings.TrimLeft(rest, " \t")
		if strings.HasPrefix(rest, "'") || strings.HasPrefix(rest, `"`) {
			value, err = quoted(rest, "''")
			return name, value, err
		}
		value = plain(rest)
		switch {
		case value == "~" || null(value):
			return name, "", ""
		case value != "" && strings.IndexByte("-?:,[]{}#&*!|>%@`", value[0]) >= 0, strings.Contains(value, ": "), strings.HasSuffix(value, ":"):
			return "", "", "put the value in quotes"
		}
		return name, value, ""
	})
}

// parseDotenv reads NAME=value lines, with an optional `export`, plain, in
// single or in double quotes, with comments. Nothing is expanded. A name that
// steers the process or where keys are sent is refused (spec jsonrpc 11.2).
func parseDotenv(data []byte) (map[string]string, error) {
	return parse(data, func(line string, _ bool) (name, value string, err string) {
		line = strings.TrimLeft(line, " \t")
		if rest, ok := strings.CutPrefix(line, "export"); ok && rest != strings.TrimLeft(rest, " \t") {
			line = strings.TrimLeft(rest, " \t")
		}
		name, rest, ok := strings.Cut(line, "=")
		switch name = strings.TrimRight(name, " \t"); {
		case !ok:
			return "", "", "must be NAME=value"
		case !validName(name):
			return "", "", "the name before the = must have letters, digits and _ only"
		case forbidden(name):
			return "", "", name + " may not be set in this file; set it in the environment of the process"
		}
		rest = strings.TrimLeft(rest, " \t")
		if strings.HasPrefix(rest, "'") || strings.HasPrefix(rest, `"`) {
			value, err = quoted(rest, "")
			return name, value, err
		}
		if value = plain(rest); strings.ContainsAny(value, `'"`) {
			return "", "", "put the whole value in quotes"
		}
		return name, value, ""
	})
}

// parse hands every line that says something to f, which gives the reason when
// the line is wrong.
func parse(data []byte, f func(line string, first bool) (name, value string, err string)) (map[string]string, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, &lineError{1, "the file must be UTF-8 text"}
	}
	values, first := map[string]string{}, true
	n := 0
	for line := range strings.SplitSeq(string(data), "\n") {
		n++
		line = strings.TrimRight(line, " \t\r")
		if strings.ContainsFunc(line, breaks) {
			return nil, &lineError{n, "a control character or an unusual line break is in the line"}
		}
		if says := strings.TrimLeft(line, " \t"); says == "" || says[0] == '#' {
			continue
		}
		name, value, err := f(line, first)
		first = false
		switch _, taken := values[name]; {
		case err != "":
			return nil, &lineError{n, err}
		case taken:
			return nil, &lineError{n, name + " is there twice; remove one"}
		case name != "":
			values[name] = value
		}
	}
	return values, nil
}

// breaks reports what somebody could take for the end of a line, and what no
// text holds.
func breaks(r rune) bool {
	return r < ' ' && r != '\t' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff
}

// plain gives an unquoted value without the comment behind it.
func plain(s string) string {
	if strings.HasPrefix(s, "#") {
		return ""
	}
	for i := 1; i < len(s); i++ {
		if s[i] == '#' && (s[i-1] == ' ' || s[i-1] == '\t') {
			s = s[:i]
		}
	}
	return strings.TrimRight(s, " \t")
}

// quoted gives the value that s begins with; inside single quotes the text
// single, if any, stands for one quote. Only a comment may follow.
func quoted(s, single string) (value string, err string) {
	var b strings.Builder
	quote, i := s[0], 1
	for ; ; i++ {
		switch {
		case i >= len(s):
			return "", "the closing quote is missing"
		case quote == '\'' && single != "" && strings.HasPrefix(s[i:], single):
			b.WriteByte('\'')
			i++
			continue
		case s[i] == quote:
			rest := s[i+1:]
			if trimmed := strings.TrimLeft(rest, " \t"); trimmed != "" && (trimmed[0] != '#' || trimmed == rest) {
				return "", "something follows the closing quote"
			}
			return b.String(), ""
		case quote == '"' && s[i] == '\\':
			if i++; i >= len(s) {
				return "", "the closing quote is missing"
			}
			at := strings.IndexByte(`"\nrt`, s[i])
			if at < 0 {
				return "", `inside double quotes only \", \\, \n, \r and \t are known; use single quotes`
			}
			b.WriteByte("\"\\\n\r\t"[at])
			continue
		}
		b.WriteByte(s[i])
	}
}

func validName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c == '_':
		case c >= '0' && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}

// null reports YAML's words for nothing.
func null(s string) bool { return s == "null" || s == "Null" || s == "NULL" }

// forbidden reports the names that a .env file may not set, whatever their case.
func forbidden(name string) bool {
	name = strings.ToUpper(name)
	switch name {
	case "PATH", "HOME", "DEEPSEEK_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY":
		return true
	}
	for _, prefix := range []string{"DSH_", "LD_", "DYLD_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
