package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"dsh/cmd/internal/launch"
	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/process"
	"dsh/kernel/profile"
	"dsh/kernel/session"
	"dsh/plugins"
	"dsh/plugins/toolbash"
)

// Results of a check.
const (
	checkOK = "ok"
	// checkWarn is something that some uses need.
	checkWarn = "warn"
	// checkFail is something to fix: doctor exits 1.
	checkFail = "fail"
)

// check is one thing that doctor looked at.
type check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	// Detail is what was found; never the value of a credential.
	Detail string `json:"detail"`
	// Fix says what to do, when the status is not ok.
	Fix string `json:"fix,omitzero"`

	// lines are Detail as a table shows it, when that is too long for one line.
	lines []string
}

// Doctor is the command doctor.
func (p Set) Doctor() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check that this machine has what dsh needs, and say what to do",
		Long: `doctor looks at the data folder, the profiles, the session store, the credentials
that the profile names (whether they are set, never what they are), the programs that
tools use, and the limits of the process. The profile is that of --profile, or ` + p.Default + `.

It makes the data folder if there is none, and writes and removes a session to see
that it can. The exit code is 1 if something needs fixing.`,
		Example: `  dsh doctor
  dsh doctor --profile ./mine.yaml --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			checks := p.diagnose(c.Context())
			for _, one := range checks {
				if one.Status == checkFail {
					p.Code = kernel.ExitFailure
				}
			}
			if asJSON {
				return p.PrintJSON(checks)
			}
			return p.printChecks(checks)
		},
	}
	JSONFlag(c, &asJSON)
	return p.named(c)
}

func (p Set) printChecks(checks []check) error {
	rows := make([][]string, 0, len(checks))
	for _, c := range checks {
		lines := c.lines
		if lines == nil {
			lines = []string{strings.ReplaceAll(c.Detail, "\n", "; ")}
		}
		rows = append(rows, []string{c.Status, c.Name, lines[0]})
		for _, line := range lines[1:] {
			rows = append(rows, []string{"", "", line})
		}
		if c.Fix != "" {
			rows = append(rows, []string{"", "", "→ " + c.Fix})
		}
	}
	return p.PrintTable(rows)
}

func (p Set) diagnose(ctx context.Context) []check {
	b := launch.ThisBuild()
	checks := []check{{Name: "build", Status: checkOK, Detail: fmt.Sprintf("%s %s, %s, %s", p.Name, b.Version, b.Go, b.Platform)}}
	home, err := p.Home()
	if err != nil {
		return append(checks, check{Name: "home", Status: checkFail, Detail: err.Error(), Fix: "set HOME or DSH_HOME, or use --home"})
	}
	name := p.ProfileName()
	data := home
	var confined check
	loaded, err := p.LoadProfile(name)
	if err == nil {
		data = loaded.Settings.Home // a profile may keep its data elsewhere
		confined, err = p.tryCompose(ctx, loaded)
	}
	checks = append(checks, checkHome(data))
	checks = append(checks, p.checkOthers(home, name)...)
	if err != nil {
		checks = append(checks, check{Name: "profile " + name, Status: checkFail, Detail: err.Error(), Fix: "correct the named lines; " + p.Name + " profiles check " + name + " looks again"})
	} else {
		checks = append(checks, check{Name: "profile " + name, Status: checkOK, Detail: fmt.Sprintf("%d rows compose, from %s", len(loaded.Entries), strings.Join(loaded.Layers, ", "))})
		checks = append(checks, p.checkStore(ctx, loaded), confined)
		checks = append(checks, p.checkCredentials(ctx, loaded)...)
		checks = append(checks, p.checkModels(ctx, loaded)...)
	}
	if loaded != nil {
		checks = append(checks, checkShells(loaded)...)
		checks = append(checks, checkContent(loaded)...)
	}
	return append(checks, checkProgram("git", "models like to run it; install it"),
		checkProgram("rg", "models like to run it; the tools grep and glob work without it"), checkDescriptors())
}

// checkHome makes the data folder, as the first session would, and writes to it.
func checkHome(home string) check {
	c := check{Name: "home", Status: checkFail, Detail: home}
	info, err := os.Stat(home)
	made := errors.Is(err, os.ErrNotExist)
	if made {
		if err = os.MkdirAll(home, 0o700); err == nil {
			info, err = os.Stat(home)
		}
	}
	const elsewhere = "make it usable, or name another folder with DSH_HOME or --home"
	switch {
	case err != nil:
		c.Detail, c.Fix = err.Error(), elsewhere
		return c
	case !info.IsDir():
		c.Detail, c.Fix = home+" is no folder", elsewhere
		return c
	}
	f, err := os.CreateTemp(home, ".doctor-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		c.Detail, c.Fix = err.Error(), elsewhere
		return c
	}
	c.Status = checkOK
	c.Detail = fmt.Sprintf("%s, %s, can be written", home, info.Mode())
	if made {
		c.Detail += ", made just now"
	}
	if open := sharedMode(info.Mode()); open != "" {
		c.Status, c.Fix = checkWarn, open+"; run: chmod 700 "+home
	}
	return c
}

// checkOthers looks at the profiles beside the one in use. What the command line
// lays on top is meant for that one.
func (p Set) checkOthers(home, used string) []check {
	options := p.ProfileOptions(home)
	options.Patches, options.Sets = nil, nil
	names, err := profile.Names(options)
	if err != nil {
		return []check{{Name: "profiles", Status: checkFail, Detail: err.Error(), Fix: "make the folder readable, or remove it"}}
	}
	var bad []check
	for _, name := range names {
		if name == used {
			continue
		}
		options.Name = name
		loaded, err := profile.Load(options)
		if err == nil {
			err = launch.CheckRows(loaded)
		}
		if err != nil {
			bad = append(bad, check{Name: "profile " + name, Status: checkWarn, Detail: err.Error(), Fix: "correct the named lines; " + p.Name + " profiles check " + name + " looks again"})
		}
	}
	detail := fmt.Sprintf("%d can be named: %s", len(names), strings.Join(names, ", "))
	return append([]check{{Name: "profiles", Status: checkOK, Detail: detail}}, bad...)
}

// tryCompose builds a profile and lets go of it before it starts. What its load
// tasks say about that is no news. It gives what can be said of confinement.
func (p Set) tryCompose(ctx context.Context, loaded *profile.Profile) (confined check, err error) {
	opts := p.KernelOptions(loaded)
	opts.Log = nil
	k, err := kernel.Compose(ctx, opts)
	if err != nil {
		return check{}, err
	}
	return checkConfinement(k), k.Stop()
}

// checkConfinement says how programs are confined under the profile, and how much
// of that this machine can hold (case B102).
func checkConfinement(k *kernel.Kernel) check {
	c := check{Name: "confinement", Status: checkWarn}
	const rows = "a profile confines programs with the rows permissions and sandbox"
	policy, ok := kernel.Seam[process.Policy](k)
	if !ok {
		c.Detail, c.Fix = "nothing says how programs are to be confined", rows
		return c
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = os.TempDir()
	}
	wanted := policy.Confinement(dir)
	if !wanted.Confines() {
		c.Detail, c.Fix = "programs run with all your rights, as the preset says", "run this in a container, or take another preset (DSH_PERMISSION_MODE)"
		return c
	}
	confiner, ok := kernel.Seam[process.Confiner](k)
	if !ok {
		c.Detail, c.Fix = wanted.Mode+" is wanted, and nothing can confine programs", rows
		return c
	}
	reached := confiner.Probe(wanted)
	c.Detail = fmt.Sprintf("%s, held: %s", wanted.Mode, reached.Level)
	if reached.Missing != "" {
		c.Detail += ", " + reached.Missing
		c.Fix = "commands that are not known to be harmless are asked about; `strict: true` in the row permissions refuses to run them"
		return c
	}
	c.Status = checkOK
	return c
}

// checkStore keeps a session, reads it back and removes it, so that any store
// is checked as it will be used.
func (p Set) checkStore(ctx context.Context, loaded *profile.Profile) check {
	c := check{Name: "sessions", Status: checkOK}
	err := p.withStore(ctx, func(store session.Store) error {
		all, err := store.List(ctx, "")
		if err != nil {
			return err
		}
		c.Detail = fmt.Sprintf("%d stored; one was written, read back and removed", len(all))
		return probe(ctx, store)
	})
	if err != nil {
		c.Status, c.Detail = checkFail, err.Error()
		c.Fix = "make the place writable, or name another: DSH_SESSION_ROOT, or the row with the session store in the profile"
	}
	for _, e := range kernel.Only[session.Store](plugins.Builtin(), loaded).Entries {
		c.Detail += fmt.Sprintf(" (row %s, %s %s)", e.ID, e.Use, e.Config)
	}
	return c
}

func probe(ctx context.Context, store session.Store) (err error) {
	h := session.Header{ID: "doctor-" + uuid.NewString(), CreatedAt: time.Now().UnixMilli()}
	w, err := store.Create(ctx, h)
	if err != nil {
		return err
	}
	log := session.NewLog(h, w, 0, 0)
	_, err = log.Append(session.Draft{Type: "doctor/probe", Data: struct{}{}, Ignorable: true})
	if err = errors.Join(err, log.Close()); err != nil {
		return errors.Join(err, store.Delete(ctx, h.ID))
	}
	read := 0
	err = store.Read(ctx, h.ID, 0, func(*session.Record) error { read++; return nil })
	if err == nil && read != 1 {
		err = fmt.Errorf("session %s has %d events instead of the one written", h.ID, read)
	}
	return errors.Join(err, store.Delete(ctx, h.ID))
}

// checkCredentials says which of the variables that rows name are set.
func (p Set) checkCredentials(ctx context.Context, loaded *profile.Profile) []check {
	if len(loaded.CredentialEnv) == 0 {
		return []check{{Name: "credentials", Status: checkOK, Detail: "the profile names none"}}
	}
	var source credential.Source = credential.Environment(p.Env)
	k, err := kernel.Compose(ctx, p.KernelOptions(kernel.Only[credential.Source](plugins.Builtin(), loaded)))
	if err == nil {
		defer func() { _ = k.Stop() }() // nothing was started
		if kept, ok := kernel.Seam[credential.Source](k); ok {
			source = kept
		}
	}
	checks := make([]check, 0, len(loaded.CredentialEnv))
	for _, name := range loaded.CredentialEnv {
		c := check{Name: "credential " + name, Status: checkOK, Detail: "set"}
		var missing *credential.MissingError
		switch _, err := source.Lookup(ctx, name); {
		case errors.As(err, &missing):
			c.Status, c.Detail = checkWarn, err.Error()
			c.Fix = "set it to use the provider that needs it; provider scripted needs none"
		case err != nil:
			c.Status, c.Detail, c.Fix = checkFail, err.Error(), "correct that place; no model request can use the key before"
		}
		checks = append(checks, c)
	}
	return checks
}

// found gives the path of a program, or what to say when there is none.
func found(program, otherwise string) string {
	path, err := exec.LookPath(program)
	if err != nil {
		return otherwise
	}
	return path
}

func checkProgram(name, fix string) check {
	c := check{Name: name, Status: checkOK, Detail: found(name, "")}
	if c.Detail == "" {
		c.Status, c.Detail, c.Fix = checkWarn, "not found in PATH", fix
	}
	return c
}

// checkShells looks for the shells of the rows with the tool bash.
func checkShells(loaded *profile.Profile) []check {
	var checks []check
	for _, e := range loaded.Entries {
		if !e.Enabled || e.Use != toolbash.Plugin.Name {
			continue
		}
		var config toolbash.Config
		if len(e.Decode(&config)) > 0 {
			continue // the check of the profile says why
		}
		c := check{Name: "shell", Status: checkOK, Detail: found(config.Shell, "")}
		wanted := config.Shell
		if wanted == "" {
			c.Detail, wanted = found("bash", found("sh", "")), "bash or sh"
		}
		if c.Detail == "" {
			c.Status, c.Detail = checkFail, wanted+" was not found"
			c.Fix = fmt.Sprintf("install it, name another shell (--set %s.shell=/path), or take the tool away (--set %s.enabled=false)", e.ID, e.ID)
		}
		checks = append(checks, c)
	}
	return checks
}
