// Package external turns executables that a profile names into plugins. A row
//
//	jira: {use: bin/jira, checksum: "sha256:…", config: {project: ABC}}
//
// starts the program as a load task, asks it what it is, checks the row's config
// against the schema that it gives, hands the config over, and registers what
// the program offers: tools, models, hooks, prompt sections, slash commands, a
// sink for events. The contract is sdkproto/plugin/pb/v1/plugin.proto.
//
// `use` is a path, which starts at the folder of the file that holds it, or the
// name of an executable in $DSH_HOME/plugins. Nothing is searched for and
// nothing is started that no row names. checksum pins the program.
//
// The member `host` of a row's config is for the harness (see Host), the rest is
// the plugin's. A row is not required unless it says so (decision R10).
//
// What a plugin may do wrong harms only itself: it has a process group, an
// environment and descriptors of its own, each step and each call has a limit,
// what it prints is bounded and goes to the log, and when it ends it is started
// again with growing pauses, a few times (cases B69, B70, B73). Meanwhile its
// tools stay listed and answer with an error that names it. When the harness
// ends, the plugin and what it has started end (case B76).
package external
