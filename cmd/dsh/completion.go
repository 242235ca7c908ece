package main

import "github.com/spf13/cobra"

// completions tells the shells what the flags take.
func (p *program) completions(root *cobra.Command) {
	words := func(all ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
	}
	for name, complete := range map[string]cobra.CompletionFunc{
		"profile":   p.CompleteProfiles,
		"session":   p.CompleteSessions,
		"output":    words(outputForms()...),
		"log-level": words("debug", "info", "warn", "error"),
		"prompt":    words(),
		"set":       words(),
	} {
		if err := root.RegisterFlagCompletionFunc(name, complete); err != nil {
			panic(err) // the flag is not there: a mistake of this package
		}
	}
}
