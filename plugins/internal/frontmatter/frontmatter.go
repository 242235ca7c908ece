// Package frontmatter reads the head of a Markdown file: lines of YAML between
// two lines of three dashes.
package frontmatter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Matter is what a head says.
type Matter struct {
	texts map[string]string
	lists map[string][]string
	keys  []string
}

// Text gives the text of a key as it is written, so that `off` and `1.10` stay
// what they are (case B81); "" when the key is not there or holds more than a
// text.
func (m Matter) Text(key string) string { return m.texts[key] }

// List gives the texts of a key that holds a list of them, or one text with commas
// between them, outside of parentheses; ok is false when the key is not there or
// says nothing.
func (m Matter) List(key string) (list []string, ok bool) {
	if list, ok := m.lists[key]; ok {
		return list, true
	}
	text := strings.TrimSpace(m.texts[key])
	if text == "" {
		return nil, false
	}
	list = []string{}
	depth, begin := 0, 0
	for i := 0; i <= len(text); i++ {
		switch {
		case i < len(text) && text[i] == '(':
			depth++
		case i < len(text) && text[i] == ')':
			depth--
		case i == len(text) || text[i] == ',' && depth <= 0:
			if part := strings.TrimSpace(text[begin:i]); part != "" {
				list = append(list, part)
			}
			begin = i + 1
		}
	}
	return list, true
}

// Keys names the keys of the head, sorted.
func (m Matter) Keys() []string { return m.keys }

// maxHead bounds a head, in bytes.
const maxHead = 64 << 10

// Parse parts a file into its head and the body behind it. A file that does not
// begin with three dashes has no head. The body is good whatever err says: then
// the head, which is no YAML object, was read line by line as far as it goes.
func Parse(text string) (m Matter, body string, err error) {
	head, body, ok := split(text)
	if !ok {
		return Matter{}, text, nil
	}
	if len(head) > maxHead {
		return Matter{}, body, fmt.Errorf("the head is longer than %d bytes; shorten it", maxHead)
	}
	m.texts, m.lists = map[string]string{}, map[string][]string{}
	var doc yaml.Node
	err = yaml.Unmarshal([]byte(head), &doc)
	switch {
	case err != nil:
		err = fmt.Errorf("the head is no YAML: %w", err)
	case len(doc.Content) == 0:
		return Matter{}, body, nil
	case doc.Content[0].Kind != yaml.MappingNode:
		err = fmt.Errorf("the head is no YAML object; write lines of the form key: value")
	}
	if err != nil {
		m.lines(head)
	} else {
		m.object(doc.Content[0])
	}
	m.keys = slices.Sorted(maps.Keys(m.texts))
	return m, body, err
}

// split finds the two lines of dashes.
func split(text string) (head, body string, ok bool) {
	first, rest, ok := strings.Cut(text, "\n")
	if !ok || strings.TrimRight(first, " \t\r") != "---" {
		return "", "", false
	}
	at := 0
	for line := range strings.Lines(rest) {
		if strings.TrimRight(line, " \t\r\n") == "---" {
			return rest[:at], rest[at+len(line):], true
		}
		at += len(line)
	}
	return "", "", false
}

func (m *Matter) object(node *yaml.Node) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		text := ""
		if value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
			text = value.Value
		}
		m.texts[key.Value] = text
		if value.Kind == yaml.SequenceNode {
			list := []string{}
			for _, item := range value.Content {
				if item.Kind == yaml.ScalarNode && item.Tag != "!!null" {
					list = append(list, item.Value)
				}
			}
			m.lists[key.Value] = list
		}
	}
}

// lines reads what people write who do not know that it is YAML: a description
// with a colon in it, above all.
func (m *Matter) lines(head string) {
	for line := range strings.Lines(head) {
		key, value, ok := strings.Cut(line, ":")
		if ok && key != "" && !strings.ContainsAny(key, " \t#\"'") {
			m.texts[key] = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
}
