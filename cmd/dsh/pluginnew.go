package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/commands"
	"dsh/cmd/internal/launch"
)

//go:embed plugintemplate
var pluginTemplates embed.FS

func (p *program) pluginNew() *cobra.Command {
	var dir, source string
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a working plugin in Go, with a test, into a new folder",
		Long: `new writes a Go module with a plugin that has one tool, its test, and a README. The
folder must not be there yet, or be empty. The module takes dsh/sdkproto/plugin from
the source of dsh; --source says where that is.`,
		Example: `  dsh plugin new greeter
  dsh plugin new greeter --dir ~/src/greeter --source ~/src/dsh`,
		Args: commands.Arguments(1, 1, "the name of the plugin"),
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			if !isRowID(name) {
				return launch.Usage(fmt.Errorf("%q is no name of a plugin: use small letters, digits and -, a letter first", name))
			}
			if dir == "" {
				dir = name
			}
			if source != "" {
				if err := checkSource(source); err != nil {
					return launch.Usage(err)
				}
			} else {
				source = ownSource()
			}
			return p.newPlugin(name, dir, source)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "`folder` to write (default NAME)")
	c.Flags().StringVar(&source, "source", "", "`folder` with the source of dsh (default: where this program was built, if it is there)")
	return c
}

// checkSource says what is wrong with a folder that is to hold the source of dsh.
func checkSource(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return fmt.Errorf("%s is not the source of dsh: %w", dir, err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == "module dsh" {
			return nil
		}
	}
	return fmt.Errorf("%s is not the source of dsh: its go.mod is of another module", dir)
}

// ownSource is the folder that this program was built from, "" when it is not
// known, as after go build -trimpath, or not there any more.
func ownSource() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return ""
	}
	dir := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if checkSource(dir) != nil {
		return ""
	}
	return dir
}

func (p *program) newPlugin(name, dir, source string) error {
	if source != "" {
		abs, err := filepath.Abs(source)
		if err != nil {
			return fmt.Errorf("folder %s: %w", source, err)
		}
		source = modulePath(abs)
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("the folder %s is there and holds something; nothing is written over: name another with --dir", dir)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	files, err := pluginFiles(name, source)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := writeNew(filepath.Join(dir, f.name), f.text); err != nil {
			return err
		}
	}
	if err := p.Printf("wrote %s\n\n", dir); err != nil {
		return err
	}
	steps := []string{"cd " + dir}
	if source == "" {
		steps = append(steps, "# in go.mod, put the folder of dsh's source behind replace")
	}
	steps = append(steps, "go mod tidy", "go test ./...", "go build", "dsh plugin check ./"+name, "dsh plugin add ./"+name)
	return p.Printf("Next:\n\n  %s\n", strings.Join(steps, "\n  "))
}

// modulePath is a path as go.mod has it.
func modulePath(path string) string {
	path = filepath.ToSlash(path)
	if strings.ContainsAny(path, " \t\"'`(),") {
		return fmt.Sprintf("%q", path)
	}
	return path
}

type namedFile struct {
	name string
	text []byte
}

func pluginFiles(name, source string) ([]namedFile, error) {
	all, err := template.ParseFS(pluginTemplates, "plugintemplate/*.tmpl")
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	var files []namedFile
	for _, t := range all.Templates() {
		var b bytes.Buffer
		values := map[string]string{"Name": name, "Tool": strings.ReplaceAll(name, "-", "_"), "Source": source}
		if err := t.Execute(&b, values); err != nil {
			return nil, fmt.Errorf("fill in %s: %w", t.Name(), err)
		}
		files = append(files, namedFile{strings.TrimSuffix(t.Name(), ".tmpl"), b.Bytes()})
	}
	return files, nil
}

// writeNew writes a file that is not there yet.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
