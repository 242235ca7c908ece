package mcp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Limits of the names that providers take.
const (
	maxName       = 64
	maxServerName = 32
)

// clean replaces each character that a provider would refuse.
func clean(raw string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, raw)
}

// digest tells apart what clean or a limit has made the same.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:4])
}

// suffixed appends a digest to a name and keeps it within a limit.
func suffixed(name, digest string, most int) string {
	return name[:min(len(name), most-1-len(digest))] + "_" + digest
}

// serverNames gives the servers' parts of tool names (spec stream-json 8.3). A
// part has no double underscore and does not end in one, so that it ends where
// the next one begins in mcp__SERVER__TOOL. Names given before, in known, stay;
// of others that would be the same, one that needed no change keeps it, whatever
// the order.
func serverNames(names []string, known map[string]string) map[string]string {
	return distinct(names, known, maxServerName, func(name string) (string, string) {
		p := clean(name)
		for strings.Contains(p, "__") {
			p = strings.ReplaceAll(p, "__", "_")
		}
		p = cmp.Or(strings.Trim(p, "_"), "server")
		if len(p) > maxServerName {
			p = suffixed(p, digest(name), maxServerName)
		}
		return p, digest(name)
	}, func(name, p string) bool { return p == name })
}

// publicNames gives the names that the model sees for what a server calls raws,
// which are all different, by the same rules (case B34).
func publicNames(server, serverPublic string, raws []string, known map[string]string) map[string]string {
	prefix := "mcp__" + serverPublic + "__"
	return distinct(raws, known, maxName, func(raw string) (string, string) {
		c, d := clean(raw), digest(server, raw)
		if p := prefix + c; c != "" && len(p) <= maxName {
			return p, d
		}
		return suffixed(prefix+c, d, maxName), d
	}, func(raw, p string) bool { return p == prefix+raw })
}

// distinct gives each name a public one of its own: the plain one, or with a
// digest where others would have the same.
func distinct(names []string, known map[string]string, most int, plain func(string) (public, digest string), unchanged func(name, public string) bool) map[string]string {
	public := make(map[string]string, len(names))
	held, count := map[string]bool{}, map[string]int{}
	for _, p := range known {
		held[p] = true
	}
	for _, name := range names {
		if _, ok := known[name]; !ok {
			p, _ := plain(name)
			count[p]++
		}
	}
	for _, name := range names {
		if p, ok := known[name]; ok {
			public[name] = p
			continue
		}
		p, d := plain(name)
		if held[p] || count[p] > 1 && !unchanged(name, p) {
			p = suffixed(p, d, most)
		}
		public[name] = p
	}
	return public
}
