package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/commands"
	"dsh/kernel"
	"dsh/kernel/profile"
	"dsh/plugins"
	"dsh/profiles"
)

func (p *program) pluginsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "plugins [NAME]",
		Short: "List the plugins a row can use, or show the config of one",
		Long: `plugins lists what the rows of a profile can use, with what each one needs,
wants and provides. With a name it shows a row of that plugin with every key of
its config, the default, and what the key takes.`,
		Example: `  dsh plugins
  dsh plugins tool-bash`,
		Args: commands.Arguments(0, 1, "one name of a plugin"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return pluginNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return p.showPlugin(args[0])
			}
			return p.listPlugins()
		},
	}
}

func pluginNames() []string {
	var names []string
	for _, plugin := range plugins.Builtin() {
		names = append(names, plugin.Name)
	}
	slices.Sort(names)
	return names
}

func (p *program) listPlugins() error {
	for _, plugin := range plugins.Builtin() {
		if err := p.Printf("%s\n    %s\n", plugin.Name, plugin.Summary); err != nil {
			return err
		}
		if err := p.printSeams("    ", plugin); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) printSeams(before string, plugin kernel.Plugin) error {
	needs, wants, provides, claims := plugin.Seams()
	for _, line := range []struct {
		what  string
		seams []string
	}{{"needs", needs}, {"wants", wants}, {"provides", provides}, {"claims", claims}} {
		if len(line.seams) == 0 {
			continue
		}
		if err := p.Printf("%s%-9s %s\n", before, line.what, strings.Join(line.seams, ", ")); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) showPlugin(name string) error {
	all := plugins.Builtin()
	i := slices.IndexFunc(all, func(plugin kernel.Plugin) bool { return plugin.Name == name })
	if i < 0 {
		names := pluginNames()
		return fmt.Errorf("there is no plugin %q%s; known plugins: %s", name, profile.DidYouMean(name, names), strings.Join(names, ", "))
	}
	if err := p.Printf("# %s\n", all[i].Summary); err != nil {
		return err
	}
	if err := p.printSeams("# ", all[i]); err != nil {
		return err
	}
	return kindOf(all[i]).Example(p.Pair.Out, name)
}

func kindOf(plugin kernel.Plugin) profile.Kind {
	return profile.Kind{Name: plugin.Name, Summary: plugin.Summary, Defaults: plugin.Defaults()}
}

func (p *program) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of profile files, for editors",
		Long: `schema prints the JSON Schema (draft 7) of a profile file. An editor that knows
it completes rows and keys and marks what no plugin knows.`,
		Example: `  dsh schema > ~/.dsh/profile.schema.json

and as the first line of a profile, for editors with the YAML language server:

  # yaml-language-server: $schema=/home/you/.dsh/profile.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return writeSchema(p.Pair.Out) },
	}
}

// writeSchema writes the schema of the built-in plugins and of the row ids of
// the built-in profiles, which are public (decision R21).
func writeSchema(w io.Writer) error {
	var kinds []profile.Kind
	for _, plugin := range plugins.Builtin() {
		kinds = append(kinds, kindOf(plugin))
	}
	ids, err := builtinRows()
	if err != nil {
		return err
	}
	schema, err := profile.Schema(kinds, ids)
	if err != nil {
		return err
	}
	if _, err := w.Write(append(schema, '\n')); err != nil {
		return fmt.Errorf("write the schema: %w", err)
	}
	return nil
}

// builtinRows gives the plugins of the row ids of the built-in profiles,
// without those ids that stand for more than one.
func builtinRows() (map[string]string, error) {
	options := profile.Options{Embedded: profiles.FS}
	names, err := profile.Names(options)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, name := range names {
		options.Name = name
		loaded, err := profile.Load(options)
		if err != nil {
			return nil, err
		}
		for _, e := range loaded.Entries {
			if use, taken := ids[e.ID]; taken && use != e.Use {
				ids[e.ID] = ""
			} else {
				ids[e.ID] = e.Use
			}
		}
	}
	for id, use := range ids {
		if use == "" {
			delete(ids, id)
		}
	}
	return ids, nil
}
