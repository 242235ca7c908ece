package toolfs

import (
	"cmp"
	"slices"
	"strings"

	"dsh/sdkproto/wirejson"
)

// span is a JSON value in a text: text[start:end]. key is where the name of a
// member begins.
type span struct{ key, start, end int }

// splice puts other text in the place of a value.
type splice struct {
	at   span
	text string
}

// apply makes all edits, which do not overlap.
func apply(text string, edits []splice) string {
	slices.SortFunc(edits, func(a, b splice) int { return cmp.Compare(a.at.start, b.at.start) })
	var b strings.Builder
	last := 0
	for _, e := range edits {
		b.WriteString(text[last:e.at.start])
		b.WriteString(e.text)
		last = e.at.end
	}
	b.WriteString(text[last:])
	return b.String()
}

// The functions below read a text that is known to be valid JSON.

const jsonSpace = " \t\r\n"

func skipSpace(text string, i int) int {
	for i < len(text) && strings.IndexByte(jsonSpace, text[i]) >= 0 {
		i++
	}
	return i
}

// skipValue gives the place behind the value that begins at i.
func skipValue(text string, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			i++
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			i++
			continue
		default:
			for i < len(text) && strings.IndexByte(",:]} \t\r\n", text[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// membersOf gives the members of an object that begins at or behind i, none of
// anything else. Of members with one name the last counts.
func membersOf(text string, i int) map[string]span {
	members := map[string]span{}
	i = skipSpace(text, i)
	if i >= len(text) || text[i] != '{' {
		return members
	}
	for i = skipSpace(text, i+1); i < len(text) && text[i] != '}'; i = skipSpace(text, i) {
		if text[i] == ',' {
			i++
			continue
		}
		m := span{key: i}
		end := skipValue(text, i)
		name := stringAt(text, span{start: i, end: end})
		m.start = skipSpace(text, skipSpace(text, end)+1) // behind the colon
		m.end = skipValue(text, m.start)
		members[name] = m
		i = m.end
	}
	return members
}

// itemsOf gives the values of the list that begins at i.
func itemsOf(text string, i int) []span {
	var items []span
	for i = skipSpace(text, i+1); i < len(text) && text[i] != ']'; i = skipSpace(text, i) {
		if text[i] == ',' {
			i++
			continue
		}
		end := skipValue(text, i)
		items = append(items, span{i, i, end})
		i = end
	}
	return items
}

// stringAt gives the string at a place, "" for anything else.
func stringAt(text string, at span) string {
	if at.end <= at.start || text[at.start] != '"' {
		return ""
	}
	var s string
	if wirejson.Unmarshal([]byte(text[at.start:at.end]), &s) != nil {
		return ""
	}
	return s
}

// removeItem takes a value and one comma out of a list.
func removeItem(text string, items []span, at int) string {
	switch {
	case at+1 < len(items):
		return text[:items[at].start] + text[items[at+1].start:]
	case at > 0:
		return text[:items[at-1].end] + text[items[at].end:]
	}
	return text[:items[at].start] + text[items[at].end:]
}

// memberWithComma is the place of a member together with the comma that goes
// with it.
func memberWithComma(text string, object, m span) span {
	before := len(strings.TrimRight(text[:m.key], jsonSpace))
	if before > object.start && text[before-1] == ',' {
		return span{start: before - 1, end: m.end}
	}
	after := skipSpace(text, m.end)
	if after < object.end && text[after] == ',' {
		return span{start: m.key, end: skipSpace(text, after+1)}
	}
	return span{start: m.key, end: m.end}
}

// lastEnd is the end of an object's last member.
func lastEnd(members map[string]span) int {
	end := 0
	for _, m := range members {
		end = max(end, m.end)
	}
	return end
}

// indentBefore is the line end and the white space in front of a place, "" when
// something else stands on its line.
func indentBefore(text string, i int) string {
	start := len(strings.TrimRight(text[:i], " \t"))
	if start == 0 || text[start-1] != '\n' {
		return ""
	}
	return "\n" + text[start:i]
}

// step is one more level of an indent, as notebooks have it.
func step(indent string) string {
	if strings.HasSuffix(indent, "\t") {
		return "\t"
	}
	return " "
}
