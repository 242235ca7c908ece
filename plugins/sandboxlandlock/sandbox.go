package sandboxlandlock

import (
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"dsh/kernel/process"
)

// Sandbox confines programs. It implements process.Confiner.
type Sandbox struct {
	config Config
	log    *slog.Logger
	// system is found out once, and not before it is needed.
	system func() system

	mu sync.Mutex
	// warned are the reasons that warnings have given.
	warned map[string]bool
	// pins are where the writable paths led when they were first used.
	pins map[string]string
}

// system is what this machine offers.
type system struct {
	// abi is the version of Landlock, 0 for none; noLandlock says why there is
	// none.
	abi        int
	noLandlock string
	// noFilter says why the network cannot be closed, "" when it can.
	noFilter string
}

// The versions of Landlock that bring what we use.
const (
	abiRefer    = 2 // Linux 5.19
	abiTruncate = 3 // Linux 6.2
	abiIoctl    = 5 // Linux 6.10
)

// New makes the sandbox.
func New(p Params) *Sandbox {
	return &Sandbox{config: p.Config, log: p.Self.Log, system: sync.OnceValue(detect), warned: map[string]bool{}, pins: map[string]string{}}
}

// Probe implements process.Confiner.
func (s *Sandbox) Probe(c *process.Confinement) process.Reached {
	if !c.Confines() {
		return process.Reached{Level: process.ReachedNone}
	}
	return s.system().reaches(c)
}

// Start implements process.Confiner. It refuses a command whose SysProcAttr asks
// for a signal at the death of its parent, which is a thread that ends at once.
func (s *Sandbox) Start(cmd *exec.Cmd, c *process.Confinement) (process.Reached, error) {
	if err := check(c); err != nil {
		return process.Reached{}, err
	}
	reached := s.Probe(c)
	if c.Confines() && c.Strict && reached.Level != process.ReachedFull {
		return process.Reached{}, fmt.Errorf("confine to %s: this must hold in full and does not on this machine: %s; mend that, or do not require it",
			asked(c), reached.Missing)
	}
	s.warn(reached)
	start := cmd.Start
	if reached.Level != process.ReachedNone {
		start = func() error { return startBound(cmd, s.rights(c)) }
	}
	if err := start(); err != nil {
		return process.Reached{}, err
	}
	return reached, nil
}

// check finds what no caller may ask for.
func check(c *process.Confinement) error {
	if c == nil {
		return nil
	}
	if !slices.Contains([]string{process.ReadOnly, process.WorkspaceWrite, process.FullAccess}, c.Mode) {
		return fmt.Errorf("confine: there is no mode %q; use %s, %s or %s", c.Mode, process.ReadOnly, process.WorkspaceWrite, process.FullAccess)
	}
	for _, path := range c.Write {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("confine: the writable path %q is not absolute", path)
		}
	}
	return nil
}

// asked names what c asks for.
func asked(c *process.Confinement) string {
	if c.NoNetwork {
		return c.Mode + " without network"
	}
	return c.Mode
}

// reaches says how far c, which asks for something, holds.
func (s system) reaches(c *process.Confinement) process.Reached {
	var missing []string
	files, network := c.Mode != process.FullAccess, c.NoNetwork
	switch {
	case files && s.abi == 0:
		files = false
		missing = append(missing, s.noLandlock)
	case files && s.abi < abiTruncate:
		missing = append(missing, "files outside can be cut short (Linux 6.2 and later prevent it)")
	}
	if network && s.noFilter != "" {
		network = false
		missing = append(missing, s.noFilter)
	}
	r := process.Reached{Level: process.ReachedFull, Missing: strings.Join(missing, "; ")}
	switch {
	case !files && !network:
		r.Level = process.ReachedNone
	case len(missing) > 0:
		r.Level = process.ReachedPartial
	}
	return r
}

// warn tells the operator what does not hold, once for each reason.
func (s *Sandbox) warn(r process.Reached) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Missing == "" || s.warned[r.Missing] {
		return
	}
	s.warned[r.Missing] = true
	s.log.Warn("programs are confined less than was asked for", "level", r.Level, "missing", r.Missing)
}

// rights are what a program keeps.
type rights struct {
	abi int
	// files holds writing to devices, and to the paths of write if pinned accepts
	// where they lead.
	files   bool
	devices []string
	write   []string
	pinned  func(path, leadsTo string) error
	// noNetwork closes the network.
	noNetwork bool
}

// rights gives those of a confinement of which something holds.
func (s *Sandbox) rights(c *process.Confinement) rights {
	sys := s.system()
	r := rights{abi: sys.abi, files: c.Mode != process.FullAccess && sys.abi > 0, noNetwork: c.NoNetwork && sys.noFilter == ""}
	if !r.files {
		return r
	}
	// The null device and its kin keep nothing; the last two give a program a
	// terminal of its own.
	r.devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"}
	if c.Mode == process.WorkspaceWrite {
		// Shared memory, without which semaphores cannot be made.
		r.devices = append(r.devices, "/dev/shm")
	}
	r.write, r.pinned = outermost(s.config.Writable, c.Write), s.pinned
	return r
}

// outermost leaves out what is below another of the paths. It may be written
// anyway; and a program that may write the other could have put a link in its
// place, which would open to the next program what it leads to.
func outermost(lists ...[]string) []string {
	var all []string
	for _, path := range slices.Concat(lists...) {
		all = append(all, filepath.Clean(path))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(slices.Clone(all), func(path string) bool {
		return slices.ContainsFunc(all, func(other string) bool {
			return path != other && strings.HasPrefix(path, strings.TrimSuffix(other, string(filepath.Separator))+string(filepath.Separator))
		})
	})
}

// maxPins bounds what is remembered of paths.
const maxPins = 10_000

// pinned refuses a path that leads somewhere else than when it was first used: a
// program of another session, which may write where the path goes along, could
// have put a link in its place.
func (s *Sandbox) pinned(path, leadsTo string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.pins[path]
	switch {
	case !known && len(s.pins) >= maxPins:
		clear(s.pins)
		fallthrough
	case !known:
		s.pins[path] = leadsTo
	case before != leadsTo:
		return fmt.Errorf("it leads to %s now, and to %s when it was first used; if that is not the work of a program that should be confined, start the harness anew", leadsTo, before)
	}
	return nil
}
