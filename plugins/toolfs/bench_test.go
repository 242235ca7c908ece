package toolfs

import (
	"os"
	"strings"
	"testing"
)

const benchLine = "\tif err := something(); err != nil {\n"

// sized is a text of about so many bytes with one special line in its middle.
func sized(size int) string {
	half := strings.Repeat(benchLine, size/2/len(benchLine))
	return half + "word\n" + half
}

func BenchmarkRead(b *testing.B) {
	x := setUp(b, defaults())
	x.Put("f", strings.Repeat(benchLine, 100_000))
	x.Put("small", strings.Repeat(benchLine, 50))
	for name, a := range map[string]args{
		"50 lines":               {"file_path": "small"},
		"the first of 100000":    {"file_path": "f"},
		"100 in the middle of":   {"file_path": "f", "offset": 50_000, "limit": 100},
		"100 at the end of them": {"file_path": "f", "offset": 99_900, "limit": 100},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.Good("read", a)
			}
		})
	}
}

func BenchmarkEdit(b *testing.B) {
	for name, size := range map[string]int{"75 KB": 75 << 10, "1 MB": 1 << 20, "20 MB": 20 << 20} {
		b.Run(name, func(b *testing.B) {
			x := setUp(b, defaults())
			x.Put("f", sized(size))
			words := [2]string{"word", "other"}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.Good("edit", args{"file_path": "f", "old_string": words[i%2], "new_string": words[1-i%2]})
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	x := setUp(b, defaults())
	content := strings.Repeat(benchLine, 1000)
	if err := os.MkdirAll(x.Path("d"), 0o755); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		x.Good("write", args{"file_path": "d/f", "content": content})
	}
}
