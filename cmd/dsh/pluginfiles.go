package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/commands"
	"dsh/cmd/internal/launch"
	"dsh/kernel/external"
	"dsh/kernel/profile"
)

func (p *program) pluginAdd() *cobra.Command {
	var (
		name   string
		enable bool
	)
	c := &cobra.Command{
		Use:   "add PROGRAM|FOLDER",
		Short: "Copy a plugin into the folder plugins, and print its row for a profile",
		Long: `add starts a program to see that it is a plugin, copies it into the folder plugins of
the data folder, and prints the row that a profile needs, with the checksum that pins
the program. A plugin of that name is replaced. A folder with a Go module is built
first, by go build.

With --enable the row is written into profile.yaml of the data folder, which lies on
top of every profile.`,
		Example: `  dsh plugin add ./greeter
  dsh plugin add ./bin/jira-plugin --name jira --enable`,
		Args: commands.Arguments(1, 1, "the path of one program, or of the folder of a Go module"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.addPlugin(c.Context(), args[0], name, enable)
		},
	}
	c.Flags().StringVar(&name, "name", "", "`name` of the plugin and of its row (default: what it calls itself)")
	c.Flags().BoolVar(&enable, "enable", false, "write the row into profile.yaml of the data folder")
	return c
}

func (p *program) addPlugin(ctx context.Context, path, name string, enable bool) error {
	if name != "" && !isRowID(name) {
		return launch.Usage(fmt.Errorf("--name %q: use small letters, digits and -, a letter first", name))
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		built, remove, err := buildPlugin(ctx, path, p.Stderr)
		if err != nil {
			return err
		}
		defer remove()
		path = built
	}
	said, err := external.Inspect(ctx, path, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("nothing was added: %w", err)
	}
	if name == "" {
		name = said.Name
	}
	if err := p.checkPluginName(name); err != nil {
		return err
	}
	home, loaded, err := p.dataFolder()
	if err != nil {
		return err
	}
	target := installed(home, name)
	there := isFile(target)
	if err := install(path, target); err != nil {
		return err
	}
	sum, err := external.Checksum(target)
	if err != nil {
		return err
	}
	did := "added"
	if there {
		did = "replaced"
	}
	if err := p.Printf("%s %s %s (%s) as %s\n", did, said.Name, launch.Plain(said.Version), strings.Join(said.Capabilities, ", "), target); err != nil {
		return err
	}
	row := fmt.Sprintf("%s: {use: %s, checksum: %q}", name, name, sum)
	if enable {
		file, err := p.enableRow(home, name, sum, row)
		if err != nil {
			return err
		}
		return p.Printf("its row is in %s\n", file)
	}
	for _, e := range rowsOf(loaded, name) {
		if e.Checksum != "" && !strings.EqualFold(e.Checksum, sum) {
			p.Say("the row %s of profile %s pins another program; put the new checksum there", e.ID, loaded.Name)
		}
	}
	return p.Printf("\nIts row for a profile, or for %s:\n\nplugins:\n  %s\n", filepath.Join(home, "profile.yaml"), row)
}

// checkPluginName refuses the names that already mean something in a profile.
func (p *program) checkPluginName(name string) error {
	switch rows, err := builtinRows(); {
	case !isRowID(name):
		return fmt.Errorf("%q cannot be the id of a row; give the plugin another name with --name", name)
	case slices.Contains(pluginNames(), name):
		return fmt.Errorf("a plugin that is built in is called %q, and a row that names it means that one; give another name with --name", name)
	case err != nil:
		return err
	case rows[name] != "":
		return fmt.Errorf("the built-in profiles have a row %q, of the plugin %s; give another name with --name", name, rows[name])
	}
	return nil
}

// installed is where a plugin of a name is kept.
func installed(home, name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(home, "plugins", name)
}

// buildLimit bounds the build of a plugin, its downloads included.
const buildLimit = 10 * time.Minute

// buildPlugin builds a Go module into a file that remove takes away.
func buildPlugin(ctx context.Context, dir string, stderr io.Writer) (path string, remove func(), err error) {
	if !isFile(filepath.Join(dir, "go.mod")) {
		return "", nil, fmt.Errorf("%s is a folder without a go.mod; name the program itself", dir)
	}
	temp, err := os.MkdirTemp("", "dsh-plugin-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(temp) }
	path = installed(temp, filepath.Base(dir))
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", path, ".")
	// What it prints is not ours: it must not be taken for our output.
	build.Dir, build.Stdout, build.Stderr = dir, stderr, stderr
	if err := build.Run(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build %s: %w; go mod tidy may help, or build it and name the program", dir, err)
	}
	return path, remove, nil
}

// install copies a program to its place; it is there whole or not at all, and
// one that runs from there goes on as it is.
func install(from, to string) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".new-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), to)
	}
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, errors.Join(err, os.Remove(out.Name())))
	}
	return nil
}

// enableRow writes a row into the file that lies on top of every profile. Only
// what is simple is done: one that is there already gets the new checksum.
func (p *program) enableRow(home, name, sum, row string) (file string, err error) {
	file = filepath.Join(home, "profile.yaml")
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // a link stays one
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	paste := fmt.Errorf("%s was not changed; put this row under plugins yourself:\n%s", file, row)
	text, ok := withRow(string(old), name, sum, row)
	if !ok {
		return file, paste
	}
	// Only what can be read afterwards, and says what it should, is kept.
	check, err := os.MkdirTemp("", "dsh-plugin-")
	if err != nil {
		return file, err
	}
	defer os.RemoveAll(check)
	if err := os.WriteFile(filepath.Join(check, "profile.yaml"), []byte(text), 0o600); err != nil {
		return file, err
	}
	options := p.ProfileOptions(check)
	options.Name, options.Patches, options.Sets = "sdk", nil, nil
	loaded, err := profile.Load(options)
	if !slices.ContainsFunc(rowsOf(loaded, name), func(e profile.Entry) bool { return e.ID == name && e.Checksum == sum }) {
		return file, errors.Join(paste, err)
	}
	return file, p.Output(file, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// withRow puts a row behind the line `plugins:` of a profile in block style, or
// adds that line; a row of that name with a checksum on the same line gets the
// new one. ok is false when the file is written in another way.
func withRow(text, name, sum, row string) (with string, ok bool) {
	lines := strings.Split(text, "\n")
	at := -1
	for i, line := range lines {
		if rest, found := strings.CutPrefix(line, "plugins:"); found {
			if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
				return "", false
			}
			at = i
		}
		if !strings.HasPrefix(strings.TrimSpace(line), name+":") {
			continue
		}
		old := strings.Index(line, "sha256:")
		if old < 0 || len(line) < old+len(sum) {
			return "", false
		}
		lines[i] = line[:old] + sum + line[old+len(sum):]
		return strings.Join(lines, "\n"), true
	}
	if at < 0 {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + "plugins:\n  " + row + "\n", true
	}
	space := "  "
	for _, line := range lines[at+1:] {
		if trimmed := strings.TrimLeft(line, " "); strings.TrimSpace(trimmed) != "" && trimmed[0] != '#' {
			if n := len(line) - len(trimmed); n > 0 {
				space = line[:n]
			}
			break
		}
	}
	return strings.Join(slices.Insert(lines, at+1, space+row), "\n"), true
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// installedPlugin is a program in the folder plugins.
type installedPlugin struct {
	Name         string   `json:"name"`
	Version      string   `json:"version,omitzero"`
	Summary      string   `json:"summary,omitzero"`
	Capabilities []string `json:"capabilities,omitzero"`
	Checksum     string   `json:"checksum,omitzero"`
	// Rows are those of the profile that start it.
	Rows []string `json:"rows"`
	// Error says why it cannot be used.
	Error string `json:"error,omitzero"`
}

func (p *program) pluginList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the programs in the folder plugins, and what they say of themselves",
		Long: `list starts each program in the folder plugins of the data folder, asks what it is, and
ends it. Those that cannot be used are marked, and standard error says why. ROWS are the
rows of the profile, that of --profile or sdk, that name it.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.listInstalled(c.Context(), asJSON) },
	}
	commands.JSONFlag(c, &asJSON)
	return c
}

func (p *program) listInstalled(ctx context.Context, asJSON bool) error {
	home, loaded, err := p.dataFolder()
	if err != nil {
		return err
	}
	dir := filepath.Join(home, "plugins")
	list, err := inspectAll(ctx, dir)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Rows = []string{}
		for _, e := range rowsOf(loaded, list[i].Name) {
			list[i].Rows = append(list[i].Rows, e.ID)
		}
	}
	switch {
	case asJSON:
		return p.PrintJSON(list)
	case len(list) == 0:
		p.Say("there are no plugins in %s; dsh plugin add adds one", dir)
		return nil
	}
	rows := [][]string{{"NAME", "VERSION", "OFFERS", "ROWS", "CHECKSUM"}}
	for _, one := range list {
		offers := strings.Join(one.Capabilities, ", ")
		if one.Error != "" {
			offers = "BROKEN"
			p.Say("plugin %s: %s", one.Name, launch.Plain(launch.Indent(one.Error)))
		}
		rows = append(rows, []string{one.Name, one.Version, offers, strings.Join(one.Rows, ", "), one.Checksum})
	}
	return p.PrintTable(rows)
}

// rowsOf gives the enabled rows that name a plugin; loaded may be nil.
func rowsOf(loaded *profile.Profile, name string) []profile.Entry {
	var rows []profile.Entry
	if loaded == nil {
		return nil
	}
	for _, e := range loaded.Entries {
		if e.Enabled && e.Use == name {
			rows = append(rows, e)
		}
	}
	return rows
}

// atOnce is how many programs are asked side by side.
const atOnce = 4

// inspectAll asks all programs of a folder what they are.
func inspectAll(ctx context.Context, dir string) ([]installedPlugin, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	list := []installedPlugin{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !isFile(filepath.Join(dir, e.Name())) {
			continue
		}
		list = append(list, installedPlugin{Name: e.Name()})
	}
	var asking sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i := range list {
		asking.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			list[i].ask(ctx, filepath.Join(dir, list[i].Name))
		})
	}
	asking.Wait()
	for i := range list {
		if runtime.GOOS == "windows" {
			list[i].Name = strings.TrimSuffix(list[i].Name, ".exe")
		}
	}
	return list, nil
}

func (one *installedPlugin) ask(ctx context.Context, path string) {
	said, err := external.Inspect(ctx, path, slog.New(slog.DiscardHandler))
	if err != nil {
		one.Error = err.Error()
		return
	}
	one.Version, one.Summary, one.Capabilities = said.Version, said.Summary, said.Capabilities
	if one.Checksum, err = external.Checksum(path); err != nil {
		one.Error = err.Error()
	}
}

func (p *program) pluginRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a program from the folder plugins",
		Long: `remove takes a program out of the folder plugins of the data folder. Rows that name it
are in profiles, and stay: take them out, or a start fails for want of the plugin.`,
		Args:              commands.Arguments(1, 1, "the name of one plugin; dsh plugin list shows them"),
		ValidArgsFunction: p.completeInstalled,
		RunE:              func(_ *cobra.Command, args []string) error { return p.removePlugin(args[0]) },
	}
}

func (p *program) removePlugin(name string) error {
	home, loaded, err := p.dataFolder()
	if err != nil {
		return err
	}
	path := installed(home, name)
	if name != filepath.Base(name) || !isFile(path) {
		names := installedNames(home)
		if len(names) == 0 {
			return fmt.Errorf("there is no plugin %q: %s has none", name, filepath.Join(home, "plugins"))
		}
		return fmt.Errorf("there is no plugin %q%s; there are: %s", name, profile.DidYouMean(name, names), strings.Join(names, ", "))
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	for _, row := range rowsOf(loaded, name) {
		p.Say("the row %s of profile %s still names it; take it out, or set enabled: false", row.ID, loaded.Name)
	}
	return p.Printf("removed %s\n", path)
}

func installedNames(home string) []string {
	entries, err := os.ReadDir(filepath.Join(home, "plugins"))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
			name := e.Name()
			if runtime.GOOS == "windows" {
				name = strings.TrimSuffix(name, ".exe")
			}
			names = append(names, name)
		}
	}
	return names
}

func (p *program) completeInstalled(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	home, err := p.Home()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return installedNames(home), cobra.ShellCompDirectiveNoFileComp
}
