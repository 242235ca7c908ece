package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"dsh/kernel/session"
)

// completionLimit bounds how long a shell waits for words to complete.
const completionLimit = 2 * time.Second

// completions tells the shells what the flags take.
func (p *program) completions(root *cobra.Command) {
	words := func(all ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
	}
	for name, complete := range map[string]cobra.CompletionFunc{
		"profile":   p.completeProfiles,
		"session":   p.completeSessions,
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

// completeProfiles gives the names of profiles; a path may be meant, too.
func (p *program) completeProfiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return p.profileNames(), cobra.ShellCompDirectiveDefault
}

// completeSessions gives the ids of stored sessions. A shell has no place for
// errors: with one there are no words.
func (p *program) completeSessions(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
	defer cancel()
	var ids []string
	p.flags.logLevel = "error"
	_ = p.withStore(ctx, func(store session.Store) error {
		all, err := store.List(ctx, "")
		for _, h := range all {
			ids = append(ids, h.ID)
		}
		return err
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}
