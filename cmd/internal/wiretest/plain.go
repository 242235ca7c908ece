// Package wiretest is for tests that compare whole conversations with files.
package wiretest

import (
	"fmt"
	"regexp"
	"strings"
)

// UUID matches a random one, as the program makes them.
const UUID = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`

// Plain replaces in lines what differs from run to run:
//
//   - ids by U1, U2, ... in the order of their appearance, and ids of the answers
//     of a model, msg_ and 32 digits, by M1, M2, ...
//   - the whole numbers of certain members, such as times, by 0
//   - a folder by its name
type Plain struct {
	folder, name string
	ids, numbers *regexp.Regexp
	known        map[string]string
	count        map[string]int
}

// NewPlain makes one for a folder; members are those whose numbers become 0.
func NewPlain(folder, name string, members ...string) *Plain {
	return &Plain{
		folder: folder, name: name, known: map[string]string{}, count: map[string]int{},
		ids:     regexp.MustCompile(UUID + `|msg_[0-9a-f]{32}`),
		numbers: regexp.MustCompile(`"(` + strings.Join(members, "|") + `)":[0-9]+`),
	}
}

// Line gives a line as it is in every run.
func (p *Plain) Line(line string) string {
	line = p.numbers.ReplaceAllString(line, `"$1":0`)
	line = strings.ReplaceAll(line, p.folder, p.name)
	return p.ids.ReplaceAllStringFunc(line, func(id string) string {
		if p.known[id] == "" {
			letter := "U"
			if strings.HasPrefix(id, "msg_") {
				letter = "M"
			}
			p.count[letter]++
			p.known[id] = fmt.Sprint(letter, p.count[letter])
		}
		return p.known[id]
	})
}
