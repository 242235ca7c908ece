package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/launch"
	"dsh/kernel"
	"dsh/kernel/approval"
	"dsh/kernel/process"
	"dsh/kernel/profile"
	usersettings "dsh/kernel/settings"
	"dsh/kernel/tool"
	"dsh/plugins"
	"dsh/sdkproto/wirejson"
)

// Permissions is the command permissions.
func (p Set) Permissions() *cobra.Command {
	c := &cobra.Command{
		Use:   "permissions",
		Short: "Say what the permissions of a profile mean",
		Long: `permissions is about what calls of tools may do under a profile, that of --profile
or ` + p.Default + `: its row with the plugin permissions, the settings files of a folder, and
DSH_PERMISSION_MODE.`,
	}
	c.AddCommand(p.permissionsExplain())
	return p.named(c)
}

func (p Set) permissionsExplain() *cobra.Command {
	var (
		cwd    string
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "explain CALL",
		Short: "Say what would become of a call, and which rule decides",
		Long: `explain judges a call of a tool as a session in this folder would, without running
or asking anything. CALL is the tool's name with its arguments as a JSON object, or
in the form of a rule: Tool(command or path).`,
		Example: `  dsh permissions explain 'bash {"command":"git push"}'
  dsh permissions explain 'Bash(git push)'
  DSH_PERMISSION_MODE=read-only dsh permissions explain 'Edit(src/main.go)'`,
		Args: Arguments(1, 1, "one call, in quotes"),
		RunE: func(c *cobra.Command, args []string) error {
			return p.explain(c.Context(), args[0], cwd, asJSON)
		},
	}
	c.Flags().StringVar(&cwd, "cwd", "", "the session's `folder` (default: this one)")
	JSONFlag(c, &asJSON)
	return c
}

// explanation is what explain tells.
type explanation struct {
	Tool      string `json:"tool"`
	Arguments any    `json:"arguments"`
	InForce   string `json:"inForce"`
	Behavior  string `json:"behavior"`
	Reason    string `json:"reason"`
	Rule      string `json:"rule,omitzero"`
	Scope     string `json:"scope,omitzero"`
	Path      string `json:"path,omitzero"`
	// Confinement is the mode that programs of the call run under, Reached what this
	// machine holds of it, Missing what it does not.
	Confinement string   `json:"confinement,omitzero"`
	Reached     string   `json:"reached,omitzero"`
	Missing     string   `json:"missing,omitzero"`
	Writable    []string `json:"writable,omitzero"`
	// Refusal is what the model is told when nobody can be asked, or nobody is.
	Refusal string `json:"refusal,omitzero"`
	// Notes are what could not be taken into account.
	Notes []string `json:"notes,omitzero"`
}

func (p Set) explain(ctx context.Context, call, cwd string, asJSON bool) (err error) {
	if cwd, err = filepath.Abs(cwd); err != nil {
		return fmt.Errorf("folder %s: %w", cwd, err)
	}
	if info, err := os.Stat(cwd); err != nil || !info.IsDir() {
		return launch.Usage(fmt.Errorf("--cwd %s is no folder", cwd))
	}
	loaded, err := p.LoadProfile(p.ProfileName())
	if err != nil {
		return err
	}
	k, err := kernel.Compose(ctx, p.KernelOptions(judging(loaded)))
	if err != nil {
		return err
	}
	if err := k.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Stop()) }()
	// A tool that cannot do its work, as for want of a shell, is judged all the same.
	_ = k.Ready().Wait(ctx)
	policy, ok := kernel.Seam[approval.Policy](k)
	if !ok {
		return fmt.Errorf("profile %s judges no calls: no enabled row of it uses permissions; every call runs", loaded.Name)
	}
	tools, _ := kernel.Seam[*tool.Registry](k)
	e, err := judged(policy, tools, call, cwd)
	if err != nil {
		return err
	}
	if asJSON {
		return p.PrintJSON(e)
	}
	return p.printExplanation(e)
}

// judging cuts a profile down to the rows that have a part in a judgement:
// policy, settings, confinement, and tools that need no model or server.
func judging(loaded *profile.Profile) *profile.Profile {
	all := plugins.Builtin()
	kept := map[string]bool{}
	for _, part := range []*profile.Profile{
		kernel.Only[approval.Policy](all, loaded), kernel.Only[usersettings.Source](all, loaded),
		kernel.Only[process.Confiner](all, loaded), kernel.Only[process.Runner](all, loaded), kernel.Only[*tool.Registry](all, loaded),
	} {
		for _, e := range part.Entries {
			kept[e.ID] = true
		}
	}
	cut := *loaded
	cut.Entries = slices.DeleteFunc(slices.Clone(loaded.Entries), func(e profile.Entry) bool {
		return !kept[e.ID] && !strings.HasPrefix(e.Use, "tool-")
	})
	return &cut
}

// judged puts a call to the policy.
func judged(policy approval.Policy, tools *tool.Registry, call, cwd string) (*explanation, error) {
	name, arguments, content, err := readCall(call)
	if err != nil {
		return nil, launch.Usage(err)
	}
	e := &explanation{InForce: policy.Mode("", cwd)}
	spec := tool.Spec{Name: name}
	var found tool.Tool
	for _, t := range tools.View(nil).List() {
		if s := t.Spec(); s.Name == name || s.Subject.Rule == name {
			found, spec = t, s
			break
		}
	}
	if content != "" {
		if spec.Subject.Member == "" {
			return nil, launch.Usage(fmt.Errorf("what %s does with %q is not known here; write %s and the arguments as a JSON object", name, content, name))
		}
		if arguments, err = wirejson.Marshal(map[string]string{spec.Subject.Member: content}); err != nil {
			return nil, err
		}
	}
	switch {
	case found == nil:
		e.Notes = append(e.Notes, fmt.Sprintf("the tool %s is not known without a start of the profile, or a deny rule hides it; it is judged as one that changes something", name))
	case content == "":
		if err := tool.CheckArguments(found, arguments); err != nil {
			e.Notes = append(e.Notes, fmt.Sprintf("the tool would refuse these arguments: %v", err))
		}
	}
	v := policy.Judge(spec, tool.Invocation{CWD: cwd, Arguments: arguments})
	e.Tool, e.Behavior, e.Reason, e.Rule, e.Scope, e.Path = spec.Name, v.Behavior, v.Reason, v.Rule, v.Scope, v.BlockedPath
	if v.Behavior != approval.Allow {
		e.Refusal = v.Message
	}
	if spec.Subject.Kind == tool.SubjectCommand && v.Confinement != nil {
		e.Confinement, e.Writable = v.Confinement.Mode, v.Confinement.Write
		e.Reached, e.Missing = v.Reached.Level, v.Reached.Missing
	}
	return e, wirejson.Unmarshal(arguments, &e.Arguments)
}

// readCall takes a call apart: a name with a JSON object, or a name with what it
// is about in parentheses.
func readCall(call string) (name string, arguments []byte, content string, err error) {
	call = strings.TrimSpace(call)
	end := strings.IndexAny(call, "({ \t\n")
	if end < 0 {
		return call, []byte("{}"), "", nil
	}
	name, rest := call[:end], strings.TrimSpace(call[end:])
	inner, open := strings.CutPrefix(rest, "(")
	content, closed := strings.CutSuffix(inner, ")")
	switch {
	case name == "":
		return "", nil, "", fmt.Errorf("%q names no tool; write TOOL {ARGUMENTS} or Tool(what)", call)
	case open && closed && content != "":
		return name, nil, content, nil
	case open:
		return "", nil, "", fmt.Errorf("%q: write Tool(what), with something between the parentheses", call)
	}
	var object map[string]any
	if err := wirejson.UnmarshalStrict([]byte(rest), &object); err != nil || object == nil {
		return "", nil, "", fmt.Errorf("the arguments of %s are no JSON object; write %s {\"name\":\"value\"} or Tool(what)", name, name)
	}
	return name, []byte(rest), "", nil
}

func (p Set) printExplanation(e *explanation) error {
	rows := [][]string{{"decision", e.Behavior}, {"reason", e.Reason}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	if e.Rule != "" {
		add("rule", fmt.Sprintf("%s (%s)", e.Rule, e.Scope))
	}
	add("in force", e.InForce)
	add("path", e.Path)
	if e.Confinement != "" {
		held := fmt.Sprintf("%s, held: %s", e.Confinement, e.Reached)
		if e.Missing != "" {
			held += " (" + e.Missing + ")"
		}
		add("confinement", held)
		add("writable", strings.Join(e.Writable, ", "))
	}
	if e.Behavior == approval.Ask {
		add("question", fmt.Sprintf("May %s run? %s.", e.Tool, e.Reason))
		add("unanswered", e.Refusal)
	} else {
		add("refusal", e.Refusal)
	}
	for _, note := range e.Notes {
		add("note", note)
	}
	return p.PrintTable(rows)
}
