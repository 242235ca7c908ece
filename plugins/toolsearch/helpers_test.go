package toolsearch

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"dsh/kernel"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
)

// fixture is the plugin's tools on a folder of their own.
type fixture struct {
	*tooltest.Fixture
	s *Search
}

type args = tooltest.Args

func setUp(t testing.TB, c Config) *fixture {
	t.Helper()
	x := &fixture{}
	x.Fixture = tooltest.NewFixture(t, func(o *kernel.Owner, r *tool.Registry) error {
		x.s = New(Params{Self: kernel.Instance{Owner: o, Log: slog.New(slog.DiscardHandler)}, Config: c, Tools: r})
		return x.s.register()
	})
	return x
}

// files makes several files, each a second older than the one before.
func (x *fixture) files(names ...string) {
	x.T.Helper()
	now := time.Now()
	for i, name := range names {
		if err := os.Chtimes(x.Put(name, "x\n"), now, now.Add(-time.Duration(i)*time.Second)); err != nil {
			x.T.Fatal(err)
		}
	}
}

func (x *fixture) paths(names ...string) string {
	for i, name := range names {
		names[i] = x.Path(name)
	}
	return strings.Join(names, "\n")
}
