//go:build ripgrep && unix

package toolsearch

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/plugins/internal/textfile"
	"dsh/sdkproto"
)

// ripgrepPath is the rg that DSH_RG names, or that of PATH.
func ripgrepPath(t testing.TB) string {
	t.Helper()
	path := os.Getenv("DSH_RG")
	if path == "" {
		path = "rg"
	}
	path, err := exec.LookPath(path)
	if err != nil {
		t.Fatalf("these tests need ripgrep; set DSH_RG to it: %v", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// pair is a tree on which two sets of tools search, one with ripgrep.
type pair struct{ with, without *fixture }

func newPair(t *testing.T, dialect string) pair {
	t.Helper()
	c := defaults()
	c.Dialect = "claude"
	if dialect == "dsh" {
		c.Dialect = "dsh"
	}
	c.Ripgrep = ripgrepPath(t)
	var p pair
	p.with = withRunner(t, c, slog.NewTextHandler(t.Output(), nil))
	p.with.s.ripgrep.ahead, p.with.s.ripgrep.eager = 0, true
	c.Ripgrep = ripgrepNever
	p.without = setUp(t, c)
	p.without.Dir = p.with.Dir
	return p
}

// compare makes a call on both and reports the difference.
func (p pair) compare(t *testing.T, tool string, a args) {
	t.Helper()
	said := func(x *fixture) []string {
		res := x.Call(t.Context(), tool, a)
		return append(strings.Split(sdkproto.TextOf(res.Content), "\n"), string(res.Meta), fmt.Sprint(res.IsError))
	}
	if d := cmp.Diff(said(p.without), said(p.with)); d != "" {
		t.Errorf("%s %v: without (-) and with ripgrep (+):\n%s", tool, a, d)
	}
	if r := p.with.s.ripgrep; r.looked && r.path == "" {
		t.Fatal("ripgrep is not used any more")
	}
}

func generate(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range rng.IntN(n + 1) {
		b.WriteString(pieces[rng.IntN(len(pieces))])
	}
	return b.String()
}

// fill writes a tree with every kind of file and rule.
func fill(t *testing.T, x *fixture, rng *rand.Rand) {
	t.Helper()
	for i := range 60 {
		x.Put(fmt.Sprintf("d%d/e%d/f%d.%s", i%3, i%5, i, []string{"go", "ts", "txt", "md"}[i%4]), generate(rng, 60))
	}
	for _, e := range []textfile.Encoding{textfile.UTF16LE, textfile.UTF16BE, textfile.UTF8BOM} {
		b, err := e.Encode(strings.ToValidUTF8(generate(rng, 60), "?"))
		if err != nil {
			t.Fatal(err)
		}
		x.Put(fmt.Sprintf("enc/%d.txt", e), string(b))
	}
	for name, content := range map[string]string{
		"bin/early": "needle\x00a\nneedle\n", "bin/late": strings.Repeat("needle a\n", 1000) + "\x00needle\n",
		"bin/utf32": "\xff\xfe\x00\x00a\x00\x00\x00", "bin/odd16": "\xff\xfea\x00b", "long/line": "a " + strings.Repeat("x", 300_000) + " needle b\nneedle\n",
		"long/full": "needle" + strings.Repeat("y", maxLine-8) + "\nb", "long/over": strings.Repeat(strings.Repeat("a b ", 500)+"\n", maxLine/2000) + "needle",
		"empty": "", ".hidden/f.go": "needle\n", ".dot": "needle a\n", "-dash": "needle a\n", "we ird\nname": "needle a\n", "世.go": "needle\n",
		".gitignore": "*.log\n/build/\n!keep.log\nd0/**/f3.*\n[ab]**c\n\\#x\n", "x.log": "needle\n", "keep.log": "needle\n", "build/f": "needle\n",
		"d1/.gitignore": "!x.log\n*.ts\n/e1\n", "d1/x.log": "needle\n", "d2/.ignore": "*\n", "d2/.rgignore": "*\n", "sub/.git/config": "needle", "sub/.gitignore": "no\n", "sub/no": "needle\n", "sub/yes": "needle\n",
		"bad\xff.txt": "needle\n", "#x": "needle\n",
	} {
		x.Put(name, content)
	}
	for link, target := range map[string]string{"link": "d0", "flink": "x.log", "gone": "nothing"} {
		if err := os.Symlink(target, x.Path(link)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWithAndWithout: with ripgrep every search has the results that it has
// without (issue 6), on trees of files of all encodings, under all rules.
func TestWithAndWithout(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			p, dsh := newPair(t, "claude"), newPair(t, "dsh")
			fill(t, p.with, rng)
			dsh.with.Dir, dsh.without.Dir = p.with.Dir, p.with.Dir
			// Something may call itself a configuration of ripgrep.
			t.Setenv("RIPGREP_CONFIG_PATH", p.with.Put("rgconfig", "--invert-match\n--max-count=1\n"))
			options := []args{
				{}, {"output_mode": "content", "head_limit": 0}, {"output_mode": "count"}, {"output_mode": "content", "-C": 2}, {"output_mode": "content", "-A": 1, "-B": 3, "-n": false},
				{"output_mode": "content", "-o": true}, {"-i": true, "output_mode": "count"}, {"type": "go", "output_mode": "content"}, {"glob": "*.{ts,md}", "output_mode": "count"},
				{"glob": "!*.go", "output_mode": "content"}, {"glob": "d1/**", "output_mode": "content"}, {"glob": ".*", "output_mode": "content"}, {"path": "d1"}, {"path": ".hidden"}, {"path": "build"},
				{"head_limit": 3, "offset": 2, "output_mode": "content"}, {"head_limit": 1}, {"offset": 5, "output_mode": "count"}, {"multiline": true, "output_mode": "content"}, {"path": "long", "output_mode": "count"},
			}
			for _, pattern := range patterns {
				for _, o := range []args{options[rng.IntN(len(options))], options[rng.IntN(len(options))], options[2], options[6]} {
					a := maps.Clone(o)
					if a["pattern"] = pattern; pattern == "" {
						continue
					}
					p.compare(t, "Grep", a)
				}
				if pattern != "" {
					dsh.compare(t, "grep", args{"pattern": pattern})
				}
			}
			for range 60 {
				var pattern strings.Builder
				for range 1 + rng.IntN(4) {
					pattern.WriteString([]string{"a", "b", ".", `\b`, "(?:a|é)", "[^b]", `\w`, `\W`, "^", "$", "x?", `\s`, "K", "(?i:k)", "世", "e+"}[rng.IntN(16)])
				}
				p.compare(t, "Grep", args{"pattern": pattern.String(), "output_mode": "content", "head_limit": 0, "-i": rng.IntN(3) == 0})
			}
		})
	}
}

// TestRipgrepConfined: a real rg works under the confinement that it gets.
func TestRipgrepConfined(t *testing.T) {
	p := newPair(t, "dsh")
	p.with.many()
	p.compare(t, "grep", args{"pattern": "needle"})
	if p.with.s.ripgrep.confinement() == nil {
		t.Log("this machine cannot confine it")
	}
}

// BenchmarkAgainstRipgrep has the searches of a large tree by rg itself, by ours
// without it and by ours with it, in one run. The tree is that of the Go library,
// or what DSH_BENCH_TREE names.
func BenchmarkAgainstRipgrep(b *testing.B) {
	program := ripgrepPath(b)
	tree := os.Getenv("DSH_BENCH_TREE")
	if tree == "" {
		out, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			b.Fatal(err)
		}
		tree = filepath.Join(strings.TrimSpace(string(out)), "src")
	}
	c := defaults()
	c.Dialect, c.Ripgrep, c.TimeoutMs = "claude", program, 600_000
	with := withRunner(b, c, slog.DiscardHandler)
	c.Ripgrep = ripgrepNever
	without := setUp(b, c)
	with.Dir, without.Dir = tree, tree
	eager := withRunner(b, c, slog.DiscardHandler)
	eager.s.ripgrep.eager, eager.Dir = true, tree
	searches := map[string]args{
		"text": {"pattern": `func needle\(`}, "case": {"pattern": `needle\(`, "-i": true}, "class": {"pattern": `[A-Z]\w+Needle[0-9]+`},
		"states": {"pattern": `[ab][a-z]{12}[0-9]{3}q`}, "spaces": {"pattern": `^\s*[a-z]+_[a-z]+_[0-9]+x$`}, "no text": {"pattern": `[0-9]{7}[a-f]{3}[0-9]{3}`},
	}
	// A machine that does other things, too, tells times apart better by what they
	// cost it.
	run := func(name string, f func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			began := processorTime(b)
			for b.Loop() {
				f(b)
			}
			b.ReportMetric(float64(processorTime(b)-began)/float64(b.N)/1e6, "cpu-ms/op")
		})
	}
	command := func(name string, args ...string) func(*testing.B) {
		return func(b *testing.B) {
			cmd := exec.Command(name, args...)
			if out, err := cmd.Output(); err != nil && (cmd.ProcessState.ExitCode() != 1 || len(out) > 0) {
				b.Fatal(err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(searches)) {
		a := searches[name]
		flags := []string{"--no-config", "-l", "--", fmt.Sprint(a["pattern"]), tree}
		if a["-i"] != nil {
			flags = slices.Insert(flags, 0, "-i")
		}
		run(name+"/rg", command(program, flags...))
		run(name+"/without", func(*testing.B) { without.Good("Grep", a) })
		run(name+"/eager", func(*testing.B) { eager.Good("Grep", a) })
		run(name+"/with", func(*testing.B) { with.Good("Grep", a) })
	}
	run("files/find", command("find", tree, "-name", ".*", "-prune", "-o", "-type", "f", "-name", "*.go", "-printf", "%T@ %p\n"))
	run("files/glob", func(*testing.B) { without.Good("Glob", args{"pattern": "**/*.go"}) })
}

// processorTime is that of this process and of those it started.
func processorTime(b *testing.B) (total time.Duration) {
	b.Helper()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err != nil {
			b.Fatal(err)
		}
		total += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	return total
}
