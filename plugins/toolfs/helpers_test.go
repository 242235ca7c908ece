package toolfs

import (
	"os"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/sdkproto"
)

// fixture is the plugin's tools on a folder of their own.
type fixture struct {
	*tooltest.Fixture
	f *Files
}

type args = tooltest.Args

func setUp(t testing.TB, c Config) *fixture {
	t.Helper()
	x := &fixture{}
	x.Fixture = tooltest.NewFixture(t, func(o *kernel.Owner, r *tool.Registry) error {
		x.f = newFiles(c, o, r, nil)
		return x.f.register()
	})
	return x
}

func (x *fixture) call(name string, a args) tool.Result {
	x.T.Helper()
	return x.Call(x.T.Context(), name, a)
}

func (x *fixture) get(name string) string {
	x.T.Helper()
	b, err := os.ReadFile(x.Path(name))
	if err != nil {
		x.T.Fatal(err)
	}
	return string(b)
}

// onlyFiles checks that a folder holds these names and nothing else.
func (x *fixture) onlyFiles(dir string, want ...string) {
	x.T.Helper()
	entries, err := os.ReadDir(x.Path(dir))
	if err != nil {
		x.T.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		x.T.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

func text(r tool.Result) string { return sdkproto.TextOf(r.Content) }
