package profile

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// rowOrder checks that over's new rows follow those of base, both in order.
func rowOrder(base, over, merged []string, removed func(string) bool) bool {
	var want []string
	for _, id := range append(slices.Clone(base), over...) {
		if !removed(id) && !slices.Contains(want, id) {
			want = append(want, id)
		}
	}
	return slices.Equal(want, merged)
}

// hasNull tells whether a mapping below v, outside lists, holds a null.
func hasNull(v *value) bool {
	return v.kind == mapping && slices.ContainsFunc(v.children(), func(c *value) bool { return c.kind == null || hasNull(c) })
}

// checkMerge checks what must hold for any two trees.
func checkMerge(t interface{ Fatalf(string, ...any) }, base, over *value) {
	baseJSON, overJSON := base.appendJSON(nil), over.appendJSON(nil)
	once := merge(base, over)
	if hasNull(merge(newMapping(Position{}), once)) || hasNull(once) && !hasNull(base) {
		t.Fatalf("a null survives: %s", once.appendJSON(nil))
	}
	if twice := merge(once, over); !bytes.Equal(once.appendJSON(nil), twice.appendJSON(nil)) {
		t.Fatalf("merging %s again changes %s to %s", overJSON, once.appendJSON(nil), twice.appendJSON(nil))
	}
	if !bytes.Equal(baseJSON, base.appendJSON(nil)) || !bytes.Equal(overJSON, over.appendJSON(nil)) {
		t.Fatalf("merging changes its arguments")
	}
	removed := func(id string) bool { m := over.get(id); return m != nil && m.kind == null }
	if !rowOrder(base.names(), over.names(), once.names(), removed) {
		t.Fatalf("order of %v and %v became %v", base.names(), over.names(), once.names())
	}
	for _, id := range base.names() {
		if merged := once.get(id); merged != nil && base.get(id).kind == mapping && over.get(id) != nil && over.get(id).kind == mapping && merged.pos != base.get(id).pos {
			t.Fatalf("%s moved from %v to %v", id, base.get(id).pos, merged.pos)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("plugins: {a: {use: x, config: {m: {x: 1}, l: [1]}}, b: {use: y}}", "plugins: {b: null, a: {config: {m: {x: null, y: 2}}}, c: {use: z}}")
	f.Add("plugins: {a: {config: {k: 1}}}", "plugins: {a: {config: {k: {n: null}}}}")
	f.Add("plugins: {a: {config: &x {k: [1, 2]}}}\nenv: {DSH_A: a.k}", "plugins: {a: {config: {k: {}, j: ~}}}")
	f.Add("plugins: {}", "- id: a")
	f.Add("a: &a [*a, *a]", "\xff\xfe")
	f.Fuzz(func(t *testing.T, first, second string) {
		var trees []*value
		for _, source := range []string{first, second} {
			la := &layer{file: "f"}
			var bad problems
			la.parse([]byte(source), &bad)
			if len(bad) > 0 || la.root == nil {
				if len(bad) == 0 {
					t.Fatalf("%q gives neither a tree nor an error", source)
				}
				return
			}
			trees = append(trees, la.root)
		}
		base, over := merge(newMapping(Position{}), trees[0]), trees[1]
		checkMerge(t, base.block("plugins"), over.block("plugins"))
		checkMerge(t, base, over)
		// A layer on top of itself is that layer.
		if same := merge(base, trees[0]); !bytes.Equal(same.appendJSON(nil), base.appendJSON(nil)) {
			t.Fatalf("%s on itself gives %s", base.appendJSON(nil), same.appendJSON(nil))
		}
	})
}

// block gives a member that is a mapping, or an empty one.
func (v *value) block(key string) *value {
	if m := v.get(key); m != nil && m.kind == mapping {
		return m
	}
	return newMapping(Position{})
}

// tree draws a value of a few keys, so that two draws overlap.
func tree(depth int) *rapid.Generator[*value] {
	return rapid.Custom(func(t *rapid.T) *value {
		pos := Position{File: "r", Line: rapid.IntRange(1, 1000).Draw(t, "line")}
		k := kind(rapid.IntRange(int(null), int(mapping)).Draw(t, "kind"))
		if depth == 0 && k >= list {
			k = null
		}
		v := &value{kind: k, pos: pos}
		switch k {
		case truth:
			v.text = "true"
		case number:
			v.text, v.json = "7", "7"
		case text:
			v.text = rapid.StringMatching(`[ab]`).Draw(t, "text")
		case list:
			v.items = rapid.SliceOfN(tree(depth-1), 0, 2).Draw(t, "items")
		case mapping:
			return mappingOf(t, depth, pos)
		}
		return v
	})
}

func mappingOf(t *rapid.T, depth int, pos Position) *value {
	v := newMapping(pos)
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d.e"}), 0, 4, rapid.ID).Draw(t, "keys") {
		v.set(key, tree(depth-1).Draw(t, key))
	}
	return v
}

func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := merge(newMapping(Position{}), mappingOf(t, 3, Position{}))
		over := mappingOf(t, 3, Position{})
		checkMerge(t, base, over)
		if same := merge(merge(newMapping(Position{}), over), over); !bytes.Equal(same.appendJSON(nil), merge(newMapping(Position{}), over).appendJSON(nil)) {
			t.Fatalf("%s on itself gives %s", over.appendJSON(nil), same.appendJSON(nil))
		}
	})
}
