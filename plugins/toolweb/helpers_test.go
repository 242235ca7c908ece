package toolweb

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/tool"
	"dsh/kernel/tool/tooltest"
	"dsh/plugins/internal/dialect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// claude is a config with every tool that needs none.
func claude() Config {
	c := defaults()
	c.Dialect = dialect.Claude
	return c
}

// local is a config that reaches the servers of a test.
func local() Config {
	c := claude()
	c.AllowAddresses = []string{"127.0.0.0/8"}
	return c
}

type fixture struct {
	*tooltest.Fixture
	web *Web
}

func setUp(t testing.TB, c Config) *fixture {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	x := &fixture{}
	x.Fixture = tooltest.NewFixture(t, func(o *kernel.Owner, tools *tool.Registry) error {
		x.web = New(Params{
			Self: kernel.Instance{Owner: o, Log: slog.New(slog.DiscardHandler)}, Config: c, Tools: tools,
			Credentials: credential.Environment(func(name string) (string, bool) {
				if name != "SEARCH_KEY" {
					return "", false
				}
				return "key-of-" + name, true
			}),
		})
		return x.web.register()
	})
	return x
}

// serve starts a server on 127.0.0.1 and gives its URL without a slash at its end.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// give is a handler that gives one answer.
func give(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(body))
	}
}

// names is a DNS server over UDP that knows some names.
type names struct {
	conn net.PacketConn
	done sync.WaitGroup

	mu      sync.Mutex
	of      map[string][]string
	queries int
}

func newNames(t testing.TB, of map[string][]string) *names {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &names{conn: conn, of: of}
	n.done.Go(n.serve)
	t.Cleanup(func() {
		conn.Close()
		n.done.Wait()
	})
	return n
}

func (n *names) serve() {
	buf := make([]byte, 4096)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:size]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.Authoritative, m.Additionals = true, true, nil
		n.mu.Lock()
		addresses, ok := n.of[q.Name.String()]
		n.queries++
		n.mu.Unlock()
		if !ok {
			m.RCode = dnsmessage.RCodeNameError
		}
		for _, text := range addresses {
			ip := net.ParseIP(text)
			head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
			if v4 := ip.To4(); v4 != nil && q.Type == dnsmessage.TypeA {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: [4]byte(v4)}})
			} else if v4 == nil && q.Type == dnsmessage.TypeAAAA {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(ip)}})
			}
		}
		if out, err := m.Pack(); err == nil {
			_, _ = n.conn.WriteTo(out, from)
		}
	}
}

// asks has a fixture resolve names here.
func (x *fixture) asks(n *names) {
	x.web.pageDialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", n.conn.LocalAddr().String())
	}}
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
