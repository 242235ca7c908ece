package toolsearch

import (
	"bytes"
	"os/exec"
	"testing"
)

// BenchmarkFind is what BenchmarkGlob is measured by: the same files through the
// system's find, whose start is part of it.
func BenchmarkFind(b *testing.B) {
	x := tree(b)
	for b.Loop() {
		cmd := exec.Command("find", x.Dir, "-name", ".*", "-prune", "-o", "-type", "f", "-name", "*.go", "-printf", "%T@ %p\n")
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		if n := bytes.Count(out, []byte("\n")); n != 4001 {
			b.Fatalf("find gives %d files", n)
		}
	}
}
