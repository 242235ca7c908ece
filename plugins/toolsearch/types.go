package toolsearch

import (
	"maps"
	"slices"
	"strings"
)

// fileTypes gives the names of files by the kinds that Grep's type may name. The
// words are those that ripgrep has for the same kinds.
func fileTypes() map[string][]string {
	return map[string][]string{
		"c":          {"*.c", "*.h"},
		"clojure":    {"*.clj", "*.cljc", "*.cljs", "*.edn"},
		"cmake":      {"*.cmake", "CMakeLists.txt"},
		"cpp":        {"*.cpp", "*.cc", "*.cxx", "*.c++", "*.hpp", "*.hh", "*.hxx", "*.h", "*.inl"},
		"cs":         {"*.cs"},
		"css":        {"*.css", "*.scss"},
		"csv":        {"*.csv"},
		"dart":       {"*.dart"},
		"docker":     {"*Dockerfile*"},
		"elixir":     {"*.ex", "*.exs", "*.eex", "*.heex"},
		"erlang":     {"*.erl", "*.hrl"},
		"go":         {"*.go"},
		"graphql":    {"*.graphql"},
		"groovy":     {"*.groovy", "*.gradle"},
		"haskell":    {"*.hs", "*.lhs"},
		"html":       {"*.html", "*.htm"},
		"java":       {"*.java", "*.jsp"},
		"js":         {"*.js", "*.jsx", "*.mjs", "*.cjs", "*.vue"},
		"json":       {"*.json"},
		"julia":      {"*.jl"},
		"jupyter":    {"*.ipynb"},
		"kotlin":     {"*.kt", "*.kts"},
		"less":       {"*.less"},
		"lua":        {"*.lua"},
		"make":       {"Makefile", "makefile", "GNUmakefile", "*.mk"},
		"markdown":   {"*.md", "*.markdown", "*.mdx"},
		"md":         {"*.md", "*.markdown", "*.mdx"},
		"nix":        {"*.nix"},
		"objc":       {"*.m", "*.h"},
		"ocaml":      {"*.ml", "*.mli"},
		"perl":       {"*.pl", "*.pm", "*.t"},
		"php":        {"*.php"},
		"protobuf":   {"*.proto"},
		"ps":         {"*.ps1", "*.psm1"},
		"py":         {"*.py", "*.pyi"},
		"python":     {"*.py", "*.pyi"},
		"r":          {"*.R", "*.r", "*.Rmd"},
		"ruby":       {"*.rb", "*.gemspec", "Gemfile", "Rakefile"},
		"rust":       {"*.rs"},
		"sass":       {"*.sass", "*.scss"},
		"scala":      {"*.scala", "*.sbt"},
		"sh":         {"*.sh", "*.bash", "*.zsh", "*.ksh"},
		"sql":        {"*.sql"},
		"svelte":     {"*.svelte"},
		"swift":      {"*.swift"},
		"tf":         {"*.tf", "*.tfvars"},
		"toml":       {"*.toml", "Cargo.lock"},
		"ts":         {"*.ts", "*.tsx", "*.cts", "*.mts"},
		"txt":        {"*.txt"},
		"typescript": {"*.ts", "*.tsx", "*.cts", "*.mts"},
		"vue":        {"*.vue"},
		"xml":        {"*.xml", "*.xsd", "*.xslt", "*.svg"},
		"yaml":       {"*.yaml", "*.yml"},
		"zig":        {"*.zig"},
	}
}

func typeNames() string { return strings.Join(slices.Sorted(maps.Keys(fileTypes())), ", ") }
