package toollsp

import (
	"bufio"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"dsh/kernel/process"
	programs "dsh/plugins/internal/child"
)

// markerVariable marks what comes from language servers of ours.
const markerVariable = "DSH_LSP_PROCESS"

// calm is how patient a server is waited for that ends while the harness goes on.
func calm() programs.Grace { return programs.Grace{Quit: 2 * time.Second, Kill: 2 * time.Second} }

// brisk is for the end of the harness (decision R13).
func brisk() programs.Grace {
	return programs.Grace{Quit: 100 * time.Millisecond, Kill: 150 * time.Millisecond}
}

// program is the program of a language server with whatever it starts.
type program struct {
	*programs.Child
	said *sayings
}

// startProgram starts the program of a server in the folder root.
func (l *LSP) startProgram(how *launch, root, marker string, c *process.Confinement, said *sayings) (*program, error) {
	env := process.Environment(os.Environ(), l.self.CredentialEnv.Names(), markerVariable, "PWD", "OLDPWD")
	for name, value := range how.env {
		env = append(env, name+"="+value)
	}
	started, reached, err := programs.Start(programs.Program{
		Path: how.path, Args: how.args, Dir: root, Env: env, Variable: markerVariable, Marker: marker,
		Confiner: l.confiner, Confinement: c, Guard: l.guarded(), Heard: said.read,
	})
	if err != nil {
		return nil, err
	}
	if c != nil && reached.Missing != "" {
		l.log.Warn("a language server is less confined than asked", "program", how.program, "mode", c.Mode, "missing", reached.Missing)
	}
	return &program{started, said}, nil
}

// end waits for the program to end by itself, then ends it, and returns when
// nothing of it is left.
func (p *program) end(g programs.Grace) {
	p.End(g)
	<-p.Gone()
}

// why says how the program ended, with the last of what it said.
func (p *program) why() string {
	why := p.Why() // by then it has been heard
	return "it " + why + p.said.last()
}

const (
	maxLine   = 2 << 10
	maxTail   = 1 << 10
	logBurst  = 40
	logPerSec = 5
)

// sayings logs what a server says beside its answers, as much of it as is good, and
// remembers the end of its standard error. It may be used from any goroutine.
type sayings struct {
	log *slog.Logger
	// secrets are values of the config that are kept out.
	secrets []string

	mu    sync.Mutex
	tail  string
	spare float64
	at    time.Time
}

func newSayings(log *slog.Logger, env map[string]string) *sayings {
	s := &sayings{log: log, spare: logBurst, at: time.Now()}
	for _, value := range env {
		// Short ones are switches, and would be found everywhere.
		if len(value) >= 6 {
			s.secrets = append(s.secrets, value)
		}
	}
	return s
}

func (s *sayings) clean(text []byte) string {
	t := strings.ToValidUTF8(string(text[:min(len(text), maxLine)]), "\ufffd")
	for _, secret := range s.secrets {
		t = strings.ReplaceAll(t, secret, "***")
	}
	return t
}

// say logs a text.
func (s *sayings) say(what string, text []byte) {
	s.mu.Lock()
	now := time.Now()
	s.spare = min(logBurst, s.spare+now.Sub(s.at).Seconds()*logPerSec)
	s.at = now
	if s.spare < 1 {
		s.mu.Unlock()
		return
	}
	s.spare--
	s.mu.Unlock()
	s.log.Debug(what, "text", s.clean(text))
}

// read reads a server's standard error to its end, in lines of bounded length.
func (s *sayings) read(errs *os.File) {
	lines := bufio.NewReaderSize(errs, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			s.say("a language server says", line)
			text := s.clean(line)
			s.mu.Lock()
			s.tail += text
			s.tail = s.tail[max(0, len(s.tail)-maxTail):]
			s.mu.Unlock()
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// last is what the server said last, in words that go behind others.
func (s *sayings) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := strings.TrimSpace(strings.ToValidUTF8(s.tail, "")); text != "" {
		return "; it last said: " + strconv.Quote(text)
	}
	return ""
}
