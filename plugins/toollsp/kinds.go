package toollsp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kind is a sort of programs that some language servers are for.
type kind struct {
	name string
	// languages are the names of the protocol, by the end of the file name.
	languages map[string]string
	// projects are files that say what belongs to a workspace; servers want to hear
	// when they change.
	projects []string
	// servers are those that are known, the best first.
	servers []known
}

// known is a language server that is looked for in PATH.
type known struct {
	command string
	args    []string
	// options keep a server from running code of the workspace, and have it do what
	// the tool builds on.
	options map[string]any
}

func same(language string, extensions ...string) map[string]string {
	m := make(map[string]string, len(extensions))
	for _, ext := range extensions {
		m[ext] = language
	}
	return m
}

func with(m map[string]string, language string, extensions ...string) map[string]string {
	maps.Copy(m, same(language, extensions...))
	return m
}

// kinds is the table of what is known.
func kinds() []kind {
	stdio := []string{"--stdio"}
	off := map[string]any{"enable": false}
	script := with(with(with(same("typescript", ".ts", ".mts", ".cts"), "typescriptreact", ".tsx"), "javascript", ".js", ".mjs", ".cjs"), "javascriptreact", ".jsx")
	return []kind{
		{"go", same("go", ".go"), []string{"go.mod", "go.sum", "go.work"},
			[]known{{"gopls", nil, map[string]any{"pullDiagnostics": true}}}},
		{"typescript", script, []string{"package.json", "tsconfig.json", "jsconfig.json"},
			[]known{{"typescript-language-server", stdio, nil}, {"vtsls", stdio, nil}}},
		{"python", same("python", ".py", ".pyi"), []string{"pyproject.toml", "pyrightconfig.json", "setup.cfg"},
			[]known{{"basedpyright-langserver", stdio, nil}, {"pyright-langserver", stdio, nil}, {"pylsp", nil, nil}}},
		{"rust", same("rust", ".rs"), []string{"Cargo.toml", "Cargo.lock"},
			[]known{{"rust-analyzer", nil, map[string]any{
				"cargo": map[string]any{"buildScripts": off}, "procMacro": off, "checkOnSave": false,
			}}}},
		{"c", with(with(same("c", ".c", ".h"), "cpp", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), "objective-c", ".m"),
			[]string{"compile_commands.json", "compile_flags.txt", ".clangd"}, []known{{"clangd", nil, nil}}},
		{"java", same("java", ".java"), []string{"pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle"},
			[]known{{"jdtls", nil, map[string]any{"settings": map[string]any{"java": map[string]any{
				"import": map[string]any{"gradle": map[string]any{"enabled": false}},
			}}}}}},
		{"csharp", same("csharp", ".cs"), nil, []known{{"csharp-ls", nil, nil}}},
		{"php", same("php", ".php"), []string{"composer.json"},
			[]known{{"intelephense", stdio, nil}, {"phpactor", []string{"language-server"}, nil}}},
		{"ruby", same("ruby", ".rb"), []string{"Gemfile"}, []known{{"solargraph", []string{"stdio"}, nil}}},
		{"lua", same("lua", ".lua"), []string{".luarc.json"}, []known{{"lua-language-server", nil, nil}}},
		{"zig", same("zig", ".zig"), []string{"build.zig.zon"}, []known{{"zls", nil, map[string]any{"enable_build_on_save": false}}}},
		{"swift", same("swift", ".swift"), []string{"Package.swift"}, []known{{"sourcekit-lsp", nil, nil}}},
		{"haskell", same("haskell", ".hs"), []string{"stack.yaml", "cabal.project"}, []known{{"haskell-language-server-wrapper", []string{"--lsp"}, nil}}},
		{"ocaml", same("ocaml", ".ml", ".mli"), []string{"dune-project"}, []known{{"ocamllsp", nil, nil}}},
		{"shell", same("shellscript", ".sh", ".bash"), nil, []known{{"bash-language-server", []string{"start"}, nil}}},
		{"yaml", same("yaml", ".yaml", ".yml"), nil, []known{{"yaml-language-server", stdio, nil}}},
		{"json", same("json", ".json"), nil, []known{{"vscode-json-language-server", stdio, nil}}},
		{"css", with(with(same("css", ".css"), "scss", ".scss"), "less", ".less"), nil, []known{{"vscode-css-language-server", stdio, nil}}},
		{"html", same("html", ".html", ".htm"), nil, []known{{"vscode-html-language-server", stdio, nil}}},
		{"terraform", same("terraform", ".tf"), nil, []known{{"terraform-ls", []string{"serve"}, nil}}},
	}
}

func kindNamed(name string) *kind {
	all := kinds()
	if i := slices.IndexFunc(all, func(k kind) bool { return k.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

func kindNames() string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}

// launch says how to start the language server of a kind.
type launch struct {
	// kind tells servers of a workspace apart.
	kind string
	// program names the server to people.
	program string
	path    string
	args    []string
	env     map[string]string
	options map[string]any
	// settings answer workspace/configuration.
	settings map[string]any
	confine  string
	// language is for extensions that are not known; extensions and projects are what
	// the server wants to hear about.
	language   string
	extensions []string
	projects   []string
}

// languageOf gives the protocol's name for the language of a file.
func (h *launch) languageOf(path string) string {
	ext := strings.ToLower(filepath.Ext(path))
	for _, k := range kinds() {
		if language := k.languages[ext]; language != "" {
			return language
		}
	}
	return cmp.Or(h.language, strings.TrimPrefix(ext, "."))
}

// missingError says which program is missing; it is for the model and the person
// behind it.
type missingError struct{ text string }

func (e *missingError) Error() string { return e.text }

// find says which server is for a file, or what is missing (S076). row is the id of
// the plugin's row.
func (c *Config) find(row, file string) (*launch, error) {
	ext := strings.ToLower(filepath.Ext(file))
	if ext == "" {
		return nil, &missingError{fmt.Sprintf("%s has no file type by which a language server could be chosen", filepath.Base(file))}
	}
	all := kinds()
	of := slices.IndexFunc(all, func(k kind) bool { return k.languages[ext] != "" })
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s := c.Servers[name]
		k := kindNamed(name)
		if k == nil {
			k = &kind{}
		}
		extensions := s.Extensions
		if len(extensions) == 0 {
			extensions = slices.Sorted(maps.Keys(k.languages))
		}
		if !slices.ContainsFunc(extensions, func(e string) bool { return strings.EqualFold(e, ext) }) {
			continue
		}
		if s.Disabled {
			return nil, &missingError{fmt.Sprintf("the config of row %s has switched the language server for %s files off (servers/%s/disabled)", row, ext, name)}
		}
		path, err := exec.LookPath(s.Command)
		if err != nil {
			return nil, &missingError{fmt.Sprintf("the language server for %s files cannot be started: %s (servers/%s/command of row %s): %v; install it, or change the config", ext, s.Command, name, row, errors.Unwrap(err))}
		}
		return &launch{
			kind: name, program: filepath.Base(s.Command), path: path, args: s.Args, env: s.Env, options: s.Options,
			settings: s.Settings, confine: s.Confine, language: s.Language, extensions: extensions, projects: k.projects,
		}, nil
	}
	example := func(name, command string) string {
		return fmt.Sprintf(`name one in the config of row %s, like servers: {%s: {command: %s, extensions: ["%s"]}}`, row, name, command, ext)
	}
	switch {
	case of < 0:
		return nil, &missingError{fmt.Sprintf("no language server is known for %s files; %s", ext, example(ext[1:], "a-language-server"))}
	case !c.Detect:
		return nil, &missingError{fmt.Sprintf("no language server is configured for %s files, and none is looked for (detect); %s", ext, example(all[of].name, all[of].servers[0].command))}
	}
	k := all[of]
	var tried []string
	for _, s := range k.servers {
		// A program that PATH finds in the working directory is an error of LookPath and
		// not taken.
		path, err := exec.LookPath(s.command)
		if err == nil {
			return &launch{
				kind: k.name, program: s.command, path: path, args: s.args, options: s.options,
				extensions: slices.Sorted(maps.Keys(k.languages)), projects: k.projects,
			}, nil
		}
		tried = append(tried, s.command)
	}
	return nil, &missingError{fmt.Sprintf("there is no language server for %s files on this machine: PATH has no %s. Install one, or %s. Until then search with Grep and read the files",
		ext, strings.Join(tried, " and no "), example(k.name, "/path/to/"+tried[0]))}
}
