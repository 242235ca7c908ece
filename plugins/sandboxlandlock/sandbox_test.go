package sandboxlandlock

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/process"
)

// newSandbox makes the sandbox of a row; given is what the machine is made out
// to offer, nil for what it does offer.
func newSandbox(t testing.TB, c Config, given *system) (*Sandbox, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	s := New(Params{Self: kernel.Instance{Log: slog.New(slog.NewTextHandler(log, nil))}, Config: c})
	if given != nil {
		s.system = func() system { return *given }
	}
	return s, log
}

// TestReached: what does not hold is said (case B102). The versions are those of
// the kernel's documentation of Landlock.
func TestReached(t *testing.T) {
	const short = "files outside can be cut short (Linux 6.2 and later prevent it)"
	all := system{abi: 7}
	nothing := system{noLandlock: "no Landlock", noFilter: "no filter"}
	for _, tc := range []struct {
		name   string
		system system
		asks   *process.Confinement
		want   process.Reached
	}{
		{"nothing is asked", all, nil, process.Reached{Level: "none"}},
		{"full access", all, &process.Confinement{Mode: "danger-full-access"}, process.Reached{Level: "none"}},
		{"full access, and nothing there", nothing, &process.Confinement{Mode: "danger-full-access"}, process.Reached{Level: "none"}},
		{"all", all, &process.Confinement{Mode: "read-only", NoNetwork: true}, process.Reached{Level: "full"}},
		{"a version to come", system{abi: 99}, &process.Confinement{Mode: "workspace-write"}, process.Reached{Level: "full"}},
		{"nothing there", nothing, &process.Confinement{Mode: "workspace-write", NoNetwork: true}, process.Reached{Level: "none", Missing: "no Landlock; no filter"}},
		{"no Landlock", system{noLandlock: "why"}, &process.Confinement{Mode: "workspace-write"}, process.Reached{Level: "none", Missing: "why"}},
		{"no Landlock, but a filter", system{noLandlock: "why"}, &process.Confinement{Mode: "workspace-write", NoNetwork: true}, process.Reached{Level: "partial", Missing: "why"}},
		{"no truncation", system{abi: 2}, &process.Confinement{Mode: "workspace-write"}, process.Reached{Level: "partial", Missing: short}},
		{"truncation", system{abi: 3}, &process.Confinement{Mode: "workspace-write"}, process.Reached{Level: "full"}},
		{"no filter", system{abi: 7, noFilter: "why"}, &process.Confinement{Mode: "read-only", NoNetwork: true}, process.Reached{Level: "partial", Missing: "why"}},
		{"no filter and no truncation", system{abi: 1, noFilter: "why"}, &process.Confinement{Mode: "read-only", NoNetwork: true}, process.Reached{Level: "partial", Missing: short + "; why"}},
		{"no filter is needed", system{abi: 7, noFilter: "why"}, &process.Confinement{Mode: "read-only"}, process.Reached{Level: "full"}},
		{"only the network", system{noLandlock: "why"}, &process.Confinement{Mode: "danger-full-access", NoNetwork: true}, process.Reached{Level: "full"}},
		{"only the network, and no filter", system{abi: 7, noFilter: "why"}, &process.Confinement{Mode: "danger-full-access", NoNetwork: true}, process.Reached{Level: "none", Missing: "why"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := newSandbox(t, Config{}, &tc.system)
			if diff := cmp.Diff(tc.want, s.Probe(tc.asks)); diff != "" {
				t.Errorf("reached (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnavailable: a confinement that must hold and cannot keeps the program
// from starting; else it runs, and what is missing is reported and logged once
// (case B102).
func TestUnavailable(t *testing.T) {
	none := system{noLandlock: "there is nothing to confine with"}
	marker := filepath.Join(t.TempDir(), "marker")
	// The program is this one, which runs no test.
	program := func() *exec.Cmd { return exec.Command(os.Args[0], "-test.run=^$", "-test.testlogfile="+marker) }

	s, log := newSandbox(t, Config{}, &none)
	cmd := program()
	reached, err := s.Start(cmd, &process.Confinement{Mode: process.ReadOnly, Strict: true})
	if err == nil || !strings.Contains(err.Error(), none.noLandlock) || !strings.Contains(err.Error(), "confine to read-only") || cmd.Process != nil {
		t.Errorf("error is %v, process %v; want a refusal that says why", err, cmd.Process)
	}
	if reached != (process.Reached{}) {
		t.Errorf("reached %+v without a start", reached)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Fatal("a program ran that must not run unconfined")
	}
	for range 2 {
		cmd = program()
		reached, err = s.Start(cmd, &process.Confinement{Mode: process.ReadOnly})
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if want := (process.Reached{Level: process.ReachedNone, Missing: none.noLandlock}); reached != want {
			t.Errorf("reached %+v, want %+v", reached, want)
		}
	}
	if _, err := os.Stat(marker); err != nil {
		t.Error("the program did not run:", err)
	}
	if n := strings.Count(log.String(), none.noLandlock); n != 1 {
		t.Errorf("the log says %d times what is missing, want once:\n%s", n, log)
	}
}

// TestRefused: what no caller may ask for starts nothing.
func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		asks process.Confinement
		says string
	}{
		{"no mode", process.Confinement{}, `no mode ""; use read-only, workspace-write or danger-full-access`},
		{"unknown mode", process.Confinement{Mode: "sealed"}, `no mode "sealed"`},
		{"relative path", process.Confinement{Mode: process.WorkspaceWrite, Write: []string{"/", "src"}}, `"src" is not absolute`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := newSandbox(t, Config{}, nil)
			cmd := exec.Command(os.Args[0], "-test.list=^$")
			if _, err := s.Start(cmd, &tc.asks); err == nil || !strings.Contains(err.Error(), tc.says) || cmd.Process != nil {
				t.Errorf("error is %v, want one that says %q", err, tc.says)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	abs, err := filepath.Abs("dri")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		writable []string
		want     string
	}{
		{"empty", nil, ""},
		{"absolute", []string{abs}, ""},
		{"relative", []string{abs, "dri"}, `"dri" is not an absolute path`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if err := (&Config{Writable: tc.writable}).Validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestOutermost(t *testing.T) {
	for _, tc := range []struct {
		name  string
		paths []string
		want  []string
	}{
		{"apart", []string{"/b", "/a"}, []string{"/a", "/b"}},
		{"twice", []string{"/a", "/a/"}, []string{"/a"}},
		{"below", []string{"/a/b/c", "/a"}, []string{"/a"}},
		{"below, untidily", []string{"/a/", "/b/../a/c"}, []string{"/a"}},
		{"a longer name", []string{"/a", "/ab"}, []string{"/a", "/ab"}},
		{"below everything", []string{"/a", "/"}, []string{"/"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := outermost(tc.paths, nil)
			for i := range got {
				got[i] = filepath.ToSlash(got[i])
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPins: what is remembered of paths is bounded.
func TestPins(t *testing.T) {
	s, _ := newSandbox(t, Config{}, nil)
	for i := range maxPins + 1 {
		if err := s.pinned(strconv.Itoa(i), "/"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.pins); n == 0 || n > maxPins {
		t.Errorf("%d paths are remembered, want from 1 to %d", n, maxPins)
	}
	if err := s.pinned(strconv.Itoa(maxPins), "/etc"); err == nil {
		t.Error("the latest path is forgotten")
	}
}
