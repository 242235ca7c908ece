package commands

import (
	"strings"
	"unicode"
)

// placeholder stands for all arguments.
const placeholder = "$ARGUMENTS"

// expand puts the arguments into a text: all of them for $ARGUMENTS, one for $1
// to $9, nothing for one that is missing. What is put in is not looked at again.
// Arguments that a text has no place for stand at its end.
func expand(text, args string) string {
	var b strings.Builder
	used := false
	words := split(args)
	for rest := text; rest != ""; {
		at := strings.IndexByte(rest, '$')
		if at < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:at])
		rest = rest[at:]
		switch {
		case strings.HasPrefix(rest, placeholder):
			b.WriteString(args)
			used, rest = true, rest[len(placeholder):]
		case len(rest) > 1 && rest[1] >= '1' && rest[1] <= '9' && (len(rest) == 2 || !isDigit(rest[2])):
			if n := int(rest[1] - '1'); n < len(words) {
				b.WriteString(words[n])
			}
			used, rest = true, rest[2:]
		default:
			b.WriteByte('$')
			rest = rest[1:]
		}
	}
	if !used && args != "" {
		b.WriteString("\n\nArguments: " + args)
	}
	return b.String()
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// split parts arguments at white space; quotes of either kind hold one together.
func split(args string) []string {
	var words []string
	var word strings.Builder
	quote, inside := rune(0), false
	for _, r := range args {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, inside = r, true
		case quote == 0 && unicode.IsSpace(r):
			if inside {
				words = append(words, word.String())
				word.Reset()
				inside = false
			}
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if inside {
		words = append(words, word.String())
	}
	return words
}
