package profile_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel/profile"
)

var update = flag.Bool("update", false, "write the golden files")

func dumpOptions() profile.Options {
	return profile.Options{
		Name:     "testdata/dump/top.yaml",
		Embedded: builtin(),
		Home:     "testdata/dump/home",
		Patches:  []string{"testdata/dump/patch.yaml"},
		Sets:     []string{"rpc.set=${literal}", "loop.steps=12", "late.enabled=false"},
		Env:      environ("DSH_STEPS", "7", "DSH_TAGS", `["x y","z"]`, "SECRET", "s3cr3t-from-env", "PORT", "8080", "LEVEL", "debug", "LATE", "late"),
	}
}

func TestDumpGolden(t *testing.T) {
	var b bytes.Buffer
	if err := load(t, dumpOptions()).Dump(&b); err != nil {
		t.Fatal(err)
	}
	got := filepath.ToSlash(b.String())
	const golden = "testdata/dump/want.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for _, secret := range []string{"s3cr3t-from-env", "s3cr3t-from-file"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is printed", secret)
		}
	}
}

// TestDumpLoads loads a dump in the place of its profile: the rows are the same.
func TestDumpLoads(t *testing.T) {
	o := dumpOptions()
	p := load(t, o)
	var b bytes.Buffer
	if err := p.Dump(&b); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "secret.txt"), "s3cr3t-from-file")
	again := load(t, profile.Options{
		Name: write(t, filepath.Join(dir, "dump.yaml"), b.String()),
		Env:  environ("SECRET", "s3cr3t-from-env", "PORT", "8080", "LEVEL", "debug", "LATE", "late"),
	})
	if diff := cmp.Diff(rows(p), rows(again)); diff != "" {
		t.Fatal(diff)
	}
	if p.Settings.LogLevel != again.Settings.LogLevel {
		t.Errorf("log level %q, then %q", p.Settings.LogLevel, again.Settings.LogLevel)
	}
	rpc, _ := p.Entry("rpc")
	for _, part := range []string{`"token":"s3cr3t-from-env"`, `"file":"s3cr3t-from-file"`, `"port":8080`, `"quotedPort":"8080"`, `"set":"${literal}"`} {
		if !strings.Contains(string(rpc.Config), part) {
			t.Errorf("%s is not in %s", part, rpc.Config)
		}
	}
}

// FuzzDump wants every profile that loads to be the same after a dump.
func FuzzDump(f *testing.F) {
	f.Add("plugins: {a: {use: x, config: {k: [1, {b: 'c d'}], \"x.y\": ~}}}")
	f.Add("plugins:\n  a:\n    use: x\n    config:\n      k: a ${env:SECRET}\n      l: |\n        $${x}\n")
	f.Add("env: {A: a.k}\nsettings: {logLevel: warn, home: /data}\nplugins: {a: {use: \"y\\u2028\\t\", enabled: false}}")
	f.Fuzz(func(t *testing.T, source string) {
		o := profile.Options{Name: "p", Embedded: fstest.MapFS{"p.yaml": {Data: []byte(source)}}, Env: environ("SECRET", "s3cr3t: #x")}
		p, err := profile.Load(o)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := p.Dump(&b); err != nil {
			t.Fatal(err)
		}
		o.Embedded = fstest.MapFS{"p.yaml": {Data: b.Bytes()}}
		again, err := profile.Load(o)
		if err != nil {
			t.Fatalf("%v\nin the dump\n%s", err, &b)
		}
		if diff := cmp.Diff(rows(p), rows(again)); diff != "" {
			t.Fatalf("%s\nafter the dump\n%s", diff, &b)
		}
	})
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestDumpReportsWriteError(t *testing.T) {
	err := load(t, dumpOptions()).Dump(full{})
	if err == nil || err.Error() != "dump profile top: disk full" {
		t.Fatalf("got %v", err)
	}
}
