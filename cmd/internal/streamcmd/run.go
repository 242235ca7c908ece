// Package streamcmd runs the stream-json surface: dcl, and dsh with a profile
// that serves the same wire. It turns the command line into overrides of the
// profile's rows, runs the kernel, and makes a start that fails known to the
// client (spec stream-json 1, 3.8).
package streamcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"dsh/cmd/internal/launch"
	"dsh/cmd/internal/streamflags"
	"dsh/kernel"
	"dsh/kernel/profile"
	"dsh/kernel/stdio"
	"dsh/plugins/streamjson"

	"dsh/sdkproto/wirejson"
)

// Profile is the profile that is run when none is named.
const Profile = "stream-json"

// Surface is the command line of one program.
type Surface struct {
	*launch.Program
	// Args are the arguments.
	Args []string
	// Serve says that without a prompt and a format the wire is served; else the
	// prompt is then read from standard input.
	Serve bool
	// Commands are what help lists, as rows of two cells.
	Commands [][2]string
}

// Version is what -v prints: the number that clients compare, and the product's
// own (spec stream-json 1.5).
func Version(program string) string {
	return fmt.Sprintf("%s (%s %s)", streamjson.DefaultVersion, program, launch.Version())
}

// Run does what the arguments say and gives the exit code (spec stream-json 1.7).
func (s *Surface) Run(ctx context.Context) int {
	line, err := streamflags.Parse(s.Args, s.Serve)
	switch {
	case err != nil:
		return s.misuse(err)
	case line.Version:
		return s.print(Version(s.Name) + "\n")
	case line.Help:
		return s.print(streamflags.Help(s.Name, s.Commands))
	case line.Prompted && strings.TrimSpace(line.Prompt) == "":
		return s.misuse(errors.New("the prompt is empty; write -p TEXT, or -p alone to read it from standard input"))
	case !line.Stream() && !line.Prompted && !line.Print && !line.DumpConfig && s.Pair.Terminal():
		return s.misuse(errors.New("there is nothing to do: say -p PROMPT, or --input-format stream-json --output-format stream-json for a client"))
	}
	stderr := launch.NewStderr(s.Stderr)
	s.Stderr = stderr
	defer stderr.Close()
	for _, note := range line.Notes {
		s.Say("%s", note)
	}
	return s.start(ctx, line)
}

func (s *Surface) misuse(err error) int {
	s.Fail(err)
	fmt.Fprintf(s.Stderr, "Run '%s --help' for usage.\n", s.Name)
	return kernel.ExitFailure
}

func (s *Surface) print(text string) int {
	if err := s.Printf("%s", text); err != nil {
		s.Fail(err)
		return kernel.ExitFailure
	}
	return kernel.ExitOK
}

// start runs the profile with what the line lays on top of it.
func (s *Surface) start(ctx context.Context, line *streamflags.Line) int {
	loaded, end, err := s.compose(line)
	defer end()
	if err != nil {
		s.Fail(err)
		return s.unstarted(line, err.Error())
	}
	if line.DumpConfig {
		if err := errors.Join(launch.CheckRows(loaded), loaded.Dump(s.Pair.Out)); err != nil {
			s.Fail(err)
			return kernel.ExitFailure
		}
		return kernel.ExitOK
	}
	opts := s.KernelOptions(loaded)
	log, closeLog, err := s.log(line, loaded)
	if err != nil {
		s.Fail(err)
		return s.unstarted(line, err.Error())
	}
	defer closeLog()
	opts.Log = log
	opts.Reread = s.reread(loaded)
	if !line.Stream() && !line.Prompted && s.Pair.Terminal() {
		s.Say("type the prompt; the end of input (Ctrl-D) sends it")
	}
	in := &noticed{in: s.Pair.In}
	opts.Stdio = &stdio.Pair{In: in, Out: s.Pair.Out}
	said := &tee{w: s.Stderr}
	// The profile is not read again: SIGHUP is the client's terminal going away, and
	// ends the process (spec stream-json 1.7).
	code := kernel.Run(ctx, s.Name, said, opts)
	if code == kernel.ExitFailure && line.Stream() && !in.read.Load() {
		return s.unstarted(line, said.reason(s.Name))
	}
	return code
}

// reread loads the profile again as the command line has it. Variables are those of
// the start: what settings and the client have set since is for programs.
func (s *Surface) reread(loaded *profile.Profile) func(context.Context) (*profile.Profile, error) {
	env := os.Environ()
	return func(context.Context) (*profile.Profile, error) {
		p := launch.Program{Name: s.Name, Default: s.Default, Flags: s.Flags, Env: func(name string) (string, bool) {
			for _, one := range env {
				if value, ok := strings.CutPrefix(one, name+"="); ok {
					return value, true
				}
			}
			return "", false
		}}
		again, err := p.LoadProfile(p.Flags.Profile)
		if err == nil && again.Settings.Home != loaded.Settings.Home {
			err = fmt.Errorf("the data folder cannot change from %s to %s while the process runs; restart it", loaded.Settings.Home, again.Settings.Home)
		}
		return again, err
	}
}

// compose loads the profile. end removes what was made for this run alone.
func (s *Surface) compose(line *streamflags.Line) (loaded *profile.Profile, end func(), err error) {
	end = func() {}
	s.Flags.Home, s.Flags.LogLevel, s.Flags.Patches = line.Home, line.LogLevel, line.Patches
	if s.Flags.Profile = line.Profile; line.Profile == "" {
		s.Flags.Profile = s.Default
	}
	if s.Flags.Sets, s.Flags.SetNames, err = line.Overrides(); err != nil {
		return nil, end, err
	}
	if line.Ephemeral {
		dir, err := os.MkdirTemp("", s.Name+"-session-")
		if err != nil {
			return nil, end, fmt.Errorf("--no-session-persistence: make a folder for the running session: %w", err)
		}
		end = func() { _ = os.RemoveAll(dir) } // only temporary files are left behind
		s.Flags.Sets = append(s.Flags.Sets, "store.dir="+string(wirejson.AppendString(nil, dir)))
		s.Flags.SetNames["store.dir"] = "--no-session-persistence"
		s.Flags.Sets = append(s.Flags.Sets, "front.transcripts=false")
		s.Flags.SetNames["front.transcripts"] = "--no-session-persistence"
	}
	loaded, err = s.LoadProfile(s.Flags.Profile)
	bare := loaded
	if err != nil {
		// Rows that the flags speak of and that are not there say less than this.
		s.Flags.Sets = line.Sets
		bare, _ = s.LoadProfile(s.Flags.Profile)
	}
	if bare != nil && !Serves(bare) {
		return nil, end, fmt.Errorf("profile %s has no row that uses %s, so it does not speak this wire; use profile %s, or one that extends it", bare.Name, streamjson.Plugin.Name, Profile)
	}
	return loaded, end, err
}

// Serves reports whether a profile serves this wire.
func Serves(p *profile.Profile) bool {
	for _, e := range p.Entries {
		if e.Enabled && e.Use == streamjson.Plugin.Name {
			return true
		}
	}
	return false
}

// noticed is standard input, with a note of whether anybody has read it.
type noticed struct {
	in   io.Reader
	read atomic.Bool
}

func (n *noticed) Read(p []byte) (int, error) {
	n.read.Store(true)
	return n.in.Read(p)
}

// tee keeps what is said on standard error, for the client.
type tee struct {
	w io.Writer

	mu   sync.Mutex
	said strings.Builder
}

func (t *tee) Write(p []byte) (int, error) {
	t.mu.Lock()
	if t.said.Len() < maxReason {
		t.said.Write(p)
	}
	t.mu.Unlock()
	return t.w.Write(p)
}

// reason is what was said, without the program's name.
func (t *tee) reason(program string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.TrimPrefix(t.said.String(), program+": "))
	if text == "" {
		return "the start failed; standard error says why"
	}
	return text
}

// debugFolder is where logs of everything go, in the data folder.
const debugFolder = "debug"

// log makes the logger of the run. With --debug it takes everything, into a file
// (spec stream-json 1.3).
func (s *Surface) log(line *streamflags.Line, loaded *profile.Profile) (log *slog.Logger, end func(), err error) {
	end = func() {}
	switch {
	case !line.Debug:
		return s.Logger(s.Stderr, loaded.Settings.LogLevel), end, nil
	case line.DebugToStderr:
		return s.Logger(s.Stderr, "debug"), end, nil
	}
	name := line.DebugFile
	if name == "" {
		name = filepath.Join(loaded.Settings.Home, debugFolder, fmt.Sprintf("%s-%d.log", s.Name, os.Getpid()))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return nil, end, fmt.Errorf("--debug: %w", err)
		}
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, end, fmt.Errorf("--debug: %w", err)
	}
	return s.Logger(f, "debug"), func() { _ = f.Close() }, nil
}
