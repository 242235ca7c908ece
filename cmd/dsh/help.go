package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"dsh/kernel"
)

// topics are help texts that belong to no command.
func topics() []*cobra.Command {
	return []*cobra.Command{{
		Use:   "environment",
		Short: "The environment variables that dsh reads",
		Long: `The environment variables that dsh reads. A blank value counts as unset.

  DSH_HOME          data folder: sessions, profiles, credentials (default ~/.dsh; --home)
  DSH_LOG_LEVEL     debug, info, warn or error (--log-level)
  DSH_CWD           set, with no arguments and no terminal: run profile sdk, for old clients
  DSH_CORDIS_CONFIG is ignored, with a line on standard error

Further variables are declared by profiles, under env; each overrides one key of one
row. Those of the built-in profiles:

  DSH_SESSION_ROOT           folder of the session logs (default sessions.d in the data folder)
  DSH_SCRIPT                 script of the provider scripted
  DSH_PERMISSION_MODE        read-only, workspace-write or danger-full-access (profile sdk)
  DSH_MAX_TOKENS_AS_SUCCESS  true: an answer that reached its limit counts as success (profile sdk)

"dsh --profile NAME --dump-config" shows them all. Keys of model providers are named by
rows, as apiKeyEnv, and never written into a profile; "dsh doctor" tells which are set.
No program that a tool starts inherits those variables.`,
	}, {
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: fmt.Sprintf(`What the exit codes mean.

  %d    all is well. A server: shutdown was asked, input ended, or SIGTERM came.
       -p: the turn was completed.
  %d    something failed; standard error says what. -p: the turn failed, was cut short,
       or reached a limit. doctor, profiles check: something needs fixing.
  %d    the command line makes no sense, or the prompt is empty
  %d  SIGINT
  %d  a second signal cut the shutdown short`,
			kernel.ExitOK, kernel.ExitFailure, kernel.ExitUsage, kernel.ExitInterrupted, kernel.ExitTerminated),
	}}
}
