// Package toolweb lets the model read the web: WebFetch gives a page as Markdown,
// WebSearch asks a search service that the profile names.
//
// Under the dialect claude the tools are WebFetch and WebSearch, under that of dsh
// web_fetch, which has to be asked for, and web_search.
//
// # WebFetch
//
// The model says what it wants to know of a page (prompt), and gets the page, cut
// to what one result may hold, with its question behind it; offset leads through a
// long one. No other model reads the page in between. Where one does (spec
// stream-json 9), it costs requests that are on no account here, since a session's
// usage comes from its answers and summaries alone, and what it leaves out is gone
// without a trace.
//
// Only public addresses are reached (Config.AllowAddresses), whatever a name
// resolves to and wherever a redirect leads; http becomes https; a redirect to
// another host is told and not followed, because a permission rule like
// WebFetch(domain:example.com) speaks of one host (spec stream-json 7.2).
//
// # WebSearch
//
// The search service is Search.URL. It gets one POST for a search, with a key as
// bearer token where Search.APIKeyEnv names one:
//
//	{"query": "go fx lifecycle", "count": 10, "allowed_domains": ["go.dev"], "blocked_domains": []}
//
// allowed_domains and blocked_domains are always there, and each covers the hosts
// below it. It answers 200 with JSON of at most 1 MiB:
//
//	{"results": [{"title": "Lifecycle", "url": "https://go.dev/x", "snippet": "optional text"}]}
//
// Other members are ignored, and so are results whose url is not http or https or
// lies outside the domains. Every other status is a failure, and the beginning of
// its body is told to the model. A redirect is a failure, too.
package toolweb

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-web".
var Plugin = kernel.Define("tool-web", "Fetches pages and searches the web.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Web).register))
	}, kernel.Needs[*tool.Registry](), kernel.Wants[credential.Source]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Tools  *tool.Registry
	// Credentials has the key of the search service; it may be nil.
	Credentials credential.Source `optional:"true"`
}
