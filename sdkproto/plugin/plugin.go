package plugin

import (
	"context"

	pb "dsh/sdkproto/plugin/pb/v1"
)

// Plugin is what an executable offers. Members that are nil are not offered.
type Plugin struct {
	// Name is kebab-case; Version is the plugin's own; Summary is one sentence for
	// people.
	Name, Version, Summary string
	// Config takes in the row's config; see Config. The zero value takes none.
	Config Configurer
	// Start runs once, after the config was taken in and before anything is
	// called. Its error keeps the row from starting; see Invalid. What depends on
	// the config may be put into p here; then the member must not be nil before, as
	// with Tools: []Tool{}, so that the harness is told of it.
	Start func(ctx context.Context, p *Plugin) error
	// Stop runs once, before the process ends in good order.
	Stop func(ctx context.Context) error

	// Tools are for the model, in the order in which it sees them.
	Tools []Tool
	// Models answers model requests.
	Models *Models
	// Hooks look at tool calls and prompts, and may refuse them.
	Hooks *Hooks
	// Sections are parts of the system prompt, in order.
	Sections []Section
	// Commands are slash commands.
	Commands []Command
	// Events is told what happens in sessions.
	Events *Events
}

func (p *Plugin) capabilities() []pb.Capability {
	var all []pb.Capability
	for _, c := range []struct {
		has bool
		is  pb.Capability
	}{
		{p.Tools != nil, pb.Capability_CAPABILITY_TOOLS},
		{p.Models != nil, pb.Capability_CAPABILITY_MODELS},
		{p.Hooks != nil, pb.Capability_CAPABILITY_HOOKS},
		{p.Sections != nil, pb.Capability_CAPABILITY_PROMPT},
		{p.Commands != nil, pb.Capability_CAPABILITY_COMMANDS},
		{p.Events != nil, pb.Capability_CAPABILITY_EVENTS},
	} {
		if c.has {
			all = append(all, c.is)
		}
	}
	return all
}
