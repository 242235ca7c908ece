package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"dsh/kernel/session"
)

// completionLimit bounds how long a shell waits for words to complete.
const completionLimit = 2 * time.Second

// CompleteProfiles gives the names of profiles; a path may be meant, too.
func (p Set) CompleteProfiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return p.ProfileNames(), cobra.ShellCompDirectiveDefault
}

// CompleteSessions gives the ids of stored sessions. A shell has no place for
// errors: with one there are no words.
func (p Set) CompleteSessions(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
	defer cancel()
	var ids []string
	p.Flags.LogLevel = "error"
	_ = p.withStore(ctx, func(store session.Store) error {
		all, err := store.List(ctx, "")
		for _, h := range all {
			ids = append(ids, h.ID)
		}
		return err
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}
