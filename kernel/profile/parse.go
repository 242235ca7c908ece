package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// maxFileBytes bounds a profile file.
	maxFileBytes = 4 << 20
	// maxAliased bounds the nodes that aliases may add to one file.
	maxAliased = 10_000
	// maxDepth bounds nesting in one file.
	maxDepth = 200
)

// layer is one file of a profile.
type layer struct {
	file     string // as Position.File shows it
	embedded bool
	root     *value
	// misshapen counts what was reported and removed from root.
	misshapen int
}

var (
	rowKeys     = []string{"use", "enabled", "required", "checksum", "config"}
	topKeys     = []string{"extends", "env", "settings", "plugins", "summary"}
	settingKeys = []string{"logLevel", "home", "reload"}

	// Names are checked at every start, so not by regular expressions.
	idForm       = form{lower, lower + decimals + "-"}
	nameForm     = form{lower + upper + decimals, lower + upper + decimals + "_-"}
	variableForm = form{lower + upper + "_", lower + upper + decimals + "_"}

	yamlPlace = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:yaml: )?(?:line ([0-9]+): )?`) })
)

const (
	lower    = "abcdefghijklmnopqrstuvwxyz"
	upper    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	decimals = "0123456789"
)

// form is the form of a name: the characters it may begin with, and those it may
// hold.
type form struct{ first, all string }

// matches reports whether a name has the form.
func (f form) matches(name string) bool {
	return name != "" && strings.IndexByte(f.first, name[0]) >= 0 && strings.Trim(name, f.all) == ""
}

// parse reads a file's bytes into l.root and checks its shape. l.root stays nil
// when the file cannot be used at all; of a file with the wrong shape it holds
// what is right, so that everything else that is wrong can be found too.
func (l *layer) parse(data []byte, bad *problems) {
	file := Position{File: l.file}
	if hint := notText(data); hint != "" {
		bad.add(file, "", "%s", hint)
		return
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at := invalidUTF8(data); at >= 0 {
		file.Line = 1 + bytes.Count(data[:at], []byte("\n"))
		bad.add(file, "", "the file is not valid UTF-8 here; save it as UTF-8")
		return
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		bad.add(file, "", "the file is empty; write `plugins: {}` or remove it")
		return
	} else if err != nil {
		bad.add(yamlError(file, err), "", "%s", yamlText(err))
		return
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		file.Line = second.Line
		bad.add(file, "", "a second YAML document starts here; a profile is one document")
		return
	} else if !errors.Is(err, io.EOF) {
		bad.add(yamlError(file, err), "", "%s", yamlText(err))
		return
	}
	top := doc.Content[0]
	switch {
	case top.Kind == yaml.SequenceNode:
		bad.add(l.at(top), "", "%s", mappingForm(top))
		return
	case top.Kind == yaml.ScalarNode && top.ShortTag() == "!!null":
		bad.add(file, "", "the file is empty; write `plugins: {}` or remove it")
		return
	case top.Kind != yaml.MappingNode:
		bad.add(l.at(top), "", "a profile is a mapping with the keys %s", strings.Join(topKeys, ", "))
		return
	}
	c := converter{layer: l, bad: bad, open: map[*yaml.Node]bool{}}
	before := len(*bad)
	root := c.value(top, "")
	if len(*bad) > before {
		return
	}
	l.root = root
	l.root.pos = l.at(top)
	l.checkShape(bad)
	l.misshapen = len(*bad) - before
}

func (l *layer) at(n *yaml.Node) Position {
	return Position{File: l.file, Line: n.Line, Column: n.Column}
}

// notText names encodings that a YAML reader would take for something else.
func notText(data []byte) string {
	switch {
	case len(data) > maxFileBytes:
		return fmt.Sprintf("the file is larger than %d bytes", maxFileBytes)
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return "the file is UTF-16; save it as UTF-8"
	case bytes.IndexByte(data, 0) >= 0:
		return "the file holds zero bytes, as UTF-16 does; save it as UTF-8"
	}
	return ""
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// yamlError gives the place the YAML reader names in its text.
func yamlError(pos Position, err error) Position {
	pos.Line = 1 // the reader leaves the first line out
	if m := yamlPlace().FindStringSubmatch(err.Error()); m[1] != "" {
		pos.Line, _ = strconv.Atoi(m[1])
	}
	// The reader counts from 0 where its grammar and not its scanner complains.
	if text := yamlText(err); strings.HasPrefix(text, "did not find expected ") {
		switch strings.TrimPrefix(text, "did not find expected ") {
		case "key", "',' or ']'", "',' or '}'", "node content", "'-' indicator", "<document start>":
			pos.Line++
		}
	}
	return pos
}

func yamlText(err error) string {
	text := err.Error()
	return text[len(yamlPlace().FindString(text)):]
}

// mappingForm answers a file in the form of a list of entries (decision R28).
func mappingForm(top *yaml.Node) string {
	id := "rpc"
	if len(top.Content) > 0 && top.Content[0].Kind == yaml.MappingNode {
		entry := top.Content[0].Content
		for i := 0; i+1 < len(entry); i += 2 {
			if entry[i].Value == "id" && idForm.matches(entry[i+1].Value) {
				id = entry[i+1].Value
			}
		}
	}
	return fmt.Sprintf("a list of entries is not understood here; write a mapping from row id to row: `plugins: {%s: {use: some-plugin, config: {key: value}}}`", id)
}

// converter turns YAML nodes into values. It checks what the YAML reader leaves
// unchecked in nodes: duplicate keys, and how much aliases expand to.
type converter struct {
	layer   *layer
	bad     *problems
	open    map[*yaml.Node]bool // anchors being expanded
	aliases int                 // depth of alias expansion
	alias   Position            // where the outermost one being expanded is used
	aliased int                 // nodes made by it
	depth   int
}

func (c *converter) value(n *yaml.Node, path string) *value {
	v := &value{pos: c.layer.at(n), layer: c.layer}
	if c.aliases > 0 {
		if c.aliased++; c.aliased > maxAliased {
			if c.aliased == maxAliased+1 {
				c.bad.add(c.alias, path, "aliases expand to more than %d values", maxAliased)
			}
			return v
		}
	}
	if c.depth++; c.depth > maxDepth {
		if c.depth == maxDepth+1 {
			c.bad.add(v.pos, path, "nested deeper than %d levels", maxDepth)
		}
		c.depth--
		return v
	}
	defer func() { c.depth-- }()
	switch n.Kind {
	case yaml.AliasNode:
		if c.open[n.Alias] {
			c.bad.add(v.pos, path, "the anchor %q holds an alias to itself", n.Value)
			return v
		}
		if c.aliases++; c.aliases == 1 {
			c.alias = v.pos
		}
		expanded := c.value(n.Alias, path)
		c.aliases--
		return expanded
	case yaml.SequenceNode:
		c.open[n] = true
		defer delete(c.open, n)
		c.tag(n, path, "!!seq")
		v.kind = list
		for i, item := range n.Content {
			v.items = append(v.items, c.value(item, path+"."+strconv.Itoa(i)))
		}
	case yaml.MappingNode:
		c.open[n] = true
		defer delete(c.open, n)
		c.tag(n, path, "!!map")
		c.mapping(v, n, path)
	case yaml.ScalarNode:
		c.scalar(v, n, path)
	}
	return v
}

func (c *converter) mapping(v *value, n *yaml.Node, path string) {
	v.kind, v.members = mapping, map[string]*value{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		pos := c.layer.at(key)
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			c.bad.add(pos, path, "a key must be text, not a list or a mapping")
			continue
		case key.Value == "<<" && key.ShortTag() == "!!merge":
			c.bad.add(pos, path, "merge keys (<<) are not supported; repeat the keys, or use an alias for the whole value")
			continue
		}
		at := key.Value
		if path != "" {
			at = keyPath(path, key.Value)
		}
		if first, ok := v.members[key.Value]; ok {
			c.bad.add(pos, at, "the key is already on line %d; keep one of the two", first.pos.Line)
			continue
		}
		member := c.value(n.Content[i+1], at)
		member.pos = pos
		v.set(key.Value, member)
	}
}

func (c *converter) scalar(v *value, n *yaml.Node, path string) {
	v.raw, v.text = n.Value, n.Value
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	tagged := n.Style&yaml.TaggedStyle != 0
	if !tagged && n.Style&quoted != 0 || tagged && n.ShortTag() == "!!str" {
		v.kind = text
		return
	}
	var ok bool
	v.kind, v.text, v.json, ok = scalar(n.Value)
	if !ok {
		c.bad.add(v.pos, path, "%s has no form in JSON; quote it if text is meant", n.Value)
	}
	v.bare = !tagged
	if !tagged {
		return
	}
	want, known := map[string]kind{"!!null": null, "!!bool": truth, "!!int": number, "!!float": number}[n.ShortTag()]
	switch {
	case !known:
		c.tag(n, path, "")
	case want != v.kind, n.ShortTag() == "!!int" && strings.ContainsAny(v.json, ".eE"):
		c.bad.add(v.pos, path, "%q is not of the type %s", n.Value, n.ShortTag())
	}
}

// tag refuses explicit tags: the values of a profile are those of JSON.
func (c *converter) tag(n *yaml.Node, path, allowed string) {
	if n.Style&yaml.TaggedStyle != 0 && n.ShortTag() != allowed {
		c.bad.add(c.layer.at(n), path, "the tag %s is not supported; remove it", n.ShortTag())
	}
}

// checkShape checks what a profile file may hold, whatever other layers say, and
// removes what it may not.
func (l *layer) checkShape(bad *problems) {
	root := l.root
	for _, key := range slices.Clone(root.names()) {
		v := root.get(key)
		switch key {
		case "extends", "summary":
			continue
		case "env", "settings", "plugins":
			if v.kind == null { // all of its lines commented out
				root.remove(key)
			} else if v.kind != mapping {
				bad.add(v.pos, key, "must be a mapping, not %s", v.describe())
				root.remove(key)
			}
		default:
			bad.add(v.pos, key, "%s", unknownKey(key, topKeys))
			root.remove(key)
		}
	}
	if v := root.get("summary"); v != nil && (v.kind != text || strings.ContainsAny(v.text, "\r\n")) {
		bad.add(v.pos, "summary", "must be one line of text")
		root.remove("summary")
	}
	prune := func(part string, check func(name string, v *value)) {
		members := root.get(part)
		for _, name := range slices.Clone(members.names()) {
			before := len(*bad)
			check(name, members.get(name))
			if len(*bad) > before {
				members.remove(name)
			}
		}
	}
	prune("env", func(name string, v *value) {
		at := keyPath("env", name)
		if !variableForm.matches(name) {
			bad.add(v.pos, at, "%q is not the name of an environment variable", name)
		}
		if v.kind == null {
			return
		}
		if v.kind != text {
			bad.add(v.pos, at, "must name what it overrides, as row-id.key, not %s", v.describe())
		} else if _, err := parseTarget(v.text); err != nil {
			bad.add(v.pos, at, "%v", err)
		}
	})
	prune("settings", func(key string, v *value) {
		if !slices.Contains(settingKeys, key) {
			bad.add(v.pos, keyPath("settings", key), "%s", unknownKey(key, settingKeys))
		}
	})
	for _, id := range slices.Clone(root.get("plugins").names()) {
		if row := root.get("plugins").get(id); !l.checkRow(id, row, bad) {
			root.get("plugins").remove(id)
		}
	}
}

// checkRow reports whether the row can be used, less the keys that cannot.
func (l *layer) checkRow(id string, row *value, bad *problems) bool {
	path := keyPath("plugins", id)
	if !idForm.matches(id) {
		bad.add(row.pos, path, "%q is not a row id; use lower-case letters, digits and dashes, a letter first", id)
		return false
	}
	switch row.kind {
	case null:
		return true
	case mapping:
	default:
		bad.add(row.pos, path, "must be a mapping with the keys %s, not %s", strings.Join(rowKeys, ", "), row.describe())
		return false
	}
	for _, key := range slices.Clone(row.names()) {
		v := row.get(key)
		if !slices.Contains(rowKeys, key) {
			bad.add(v.pos, keyPath(path, key), "%s", unknownKey(key, rowKeys))
		} else if key == "config" && v.kind != null && v.kind != mapping {
			bad.add(v.pos, path+".config", "must be a mapping, not %s", v.describe())
		} else {
			continue
		}
		row.remove(key)
	}
	return true
}
