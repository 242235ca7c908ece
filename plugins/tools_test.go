package plugins_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh/kernel"
	"dsh/kernel/kerneltest"
	"dsh/kernel/tool"
	"dsh/plugins"
	"dsh/profiles"
)

// class is what the loop and the permission rules go by.
type class struct {
	// Does is what a call may do: "reads", "writes", or "" for neither, as what only
	// starts something else. A question is one that "asks".
	Does string
	// Beside: calls run beside others.
	Beside bool
	// Rule and Kind are those of tool.Subject (spec stream-json 7.2).
	Rule, Kind string
	// In is the folder below plugins whose tests run the contract suite on it.
	In string
}

// toolSets are the tools of the profiles that serve clients, with a search service
// configured: the names of spec jsonrpc 11.4 and of spec stream-json 9, S076's
// Skill, NotebookEdit and LSP on a machine without a skill and a server included.
var toolSets = map[string]map[string]class{
	"sdk": {
		"read":            {"reads", true, "Read", tool.SubjectPath, "toolfs"},
		"write":           {"writes", false, "Write", tool.SubjectPath, "toolfs"},
		"read_image":      {"reads", true, "Read", tool.SubjectPath, "toolfs"},
		"edit":            {"writes", false, "Edit", tool.SubjectPath, "toolfs"},
		"glob":            {"reads", true, "Glob", tool.SubjectPattern, "toolsearch"},
		"grep":            {"reads", true, "Grep", tool.SubjectPath, "toolsearch"},
		"bash":            {"writes", false, "Bash", tool.SubjectCommand, "toolbash"},
		"todo_write":      {"reads", false, "", "", "tooltodo"},
		"web_search":      {"reads", true, "WebSearch", "", "toolweb"},
		"subagent":        {"", true, "Agent", "", "subagent"},
		"list_agents":     {"reads", true, "", "", "subagent"},
		"interrupt_agent": {"reads", true, "", "", "subagent"},
		"job_list":        {"reads", true, "", "", "tooljob"},
		"job_output":      {"reads", true, "", "", "tooljob"},
		"job_kill":        {"reads", true, "", "", "tooljob"},
		"skill":           {"reads", true, "Skill", tool.SubjectText, "skills"},
	},
	"stream-json": {
		"Read":            {"reads", true, "Read", tool.SubjectPath, "toolfs"},
		"Write":           {"writes", false, "Write", tool.SubjectPath, "toolfs"},
		"Edit":            {"writes", false, "Edit", tool.SubjectPath, "toolfs"},
		"NotebookEdit":    {"writes", false, "NotebookEdit", tool.SubjectPath, "toolfs"},
		"Glob":            {"reads", true, "Glob", tool.SubjectPattern, "toolsearch"},
		"Grep":            {"reads", true, "Grep", tool.SubjectPath, "toolsearch"},
		"Bash":            {"writes", false, "Bash", tool.SubjectCommand, "toolbash"},
		"TodoWrite":       {"reads", false, "", "", "tooltodo"},
		"WebFetch":        {"reads", true, "WebFetch", tool.SubjectURL, "toolweb"},
		"WebSearch":       {"reads", true, "WebSearch", "", "toolweb"},
		"AskUserQuestion": {"asks", false, "", "", "toolask"},
		"EnterPlanMode":   {"reads", false, "", "", "toolask"},
		"ExitPlanMode":    {"asks", false, "", "", "toolask"},
		"Agent":           {"", true, "Agent", tool.SubjectText, "subagent"},
		"TaskOutput":      {"reads", true, "", "", "tooljob"},
		"TaskStop":        {"reads", true, "", "", "tooljob"},
		"LSP":             {"reads", true, "Read", tool.SubjectPath, "toollsp"},
		"Skill":           {"reads", true, "Skill", tool.SubjectText, "skills"},
	},
}

// TestToolSets: each tool of a profile is of the right class and has its contract
// test; a tool that is not in the table is an error (issue 6, S076).
func TestToolSets(t *testing.T) {
	for profile, want := range toolSets {
		t.Run(profile, func(t *testing.T) {
			booted := kerneltest.Boot(t, kerneltest.Options{
				Profile: profile, FS: profiles.FS, Plugins: plugins.Builtin(), Sets: []string{"web.search.url=https://search.test"},
			})
			registry, ok := kernel.Seam[*tool.Registry](booted.Kernel)
			if !ok {
				t.Fatal("no registry of tools")
			}
			got := map[string]class{}
			for _, tl := range registry.View(nil).List() {
				spec := tl.Spec()
				c := class{Beside: spec.Parallel, Rule: spec.Subject.Rule, Kind: spec.Subject.Kind, In: want[spec.Name].In}
				switch {
				case spec.AsksUser:
					c.Does = "asks"
				case spec.ReadOnly && !spec.Destructive:
					c.Does = "reads"
				case spec.Destructive && !spec.ReadOnly:
					c.Does = "writes"
				}
				got[spec.Name] = c
				if strings.TrimSpace(spec.Description) == "" || len(spec.Parameters) == 0 {
					t.Errorf("%s: description %q, parameters %s", spec.Name, spec.Description, spec.Parameters)
				}
				if c.In != "" && !runsContract(t, c.In, spec.Name) {
					t.Errorf("no test in plugins/%s runs tooltest.TestTool for %s; add one", c.In, spec.Name)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("tools (-want +got); give a new one its contract test and its line here:\n%s", diff)
			}
		})
	}
}

// runsContract looks for the suite and the tool's name in the tests of a folder.
func runsContract(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	suite, named := false, false
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		suite = suite || strings.Contains(string(b), "tooltest.TestTool(")
		named = named || strings.Contains(string(b), name)
	}
	return suite && named
}
