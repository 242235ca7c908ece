// Package plugin is for authors of third-party plugins: executables that a
// profile names and the harness starts. A plugin is one call in main:
//
//	type config struct {
//		Greeting string `json:"greeting,omitzero" jsonschema:"What to say first."`
//	}
//
//	type who struct {
//		Name string `json:"name" jsonschema:"Whom to greet."`
//	}
//
//	func main() {
//		c := config{Greeting: "Hello"}
//		plugin.Serve(plugin.Plugin{
//			Name: "greeter", Version: "1.0.0", Summary: "Greets people.",
//			Config: plugin.Config(&c),
//			Tools: []plugin.Tool{plugin.Typed(
//				plugin.ToolSpec{Name: "greet", Description: "Greets somebody.", ReadOnly: true},
//				func(ctx context.Context, call plugin.Call, p who) (plugin.Result, error) {
//					return plugin.TextResult(c.Greeting + ", " + p.Name), nil
//				})},
//		})
//	}
//
// and the row of a profile that uses it is
//
//	plugins:
//	  greeter: {use: bin/greeter, config: {greeting: Good morning}}
//
// Everything that is a function here may be called from several goroutines at
// once. Its context has a deadline and ends when nobody waits for the answer. A
// panic in one is a failed call, no more; one in a goroutine of the plugin's own
// ends the process, which the harness then starts again.
//
// Log through log/slog: Serve makes it write to standard error in a form in
// which the harness keeps the level and the attributes. Standard output belongs
// to the handshake; what is printed there is logged.
//
// The contract itself is plugin.proto in the folder pb/v1. It says all that a
// plugin in another language needs to know.
package plugin

// Handshake of a plugin with the harness.
const (
	// CookieKey and CookieValue are in the environment of every plugin: they tell
	// it that the harness started it, and not a person.
	CookieKey   = "DSH_PLUGIN"
	CookieValue = "dsh-plugin"
	// ProtocolVersion is the version of the contract that this package speaks.
	ProtocolVersion = 1
	// MaxMessage is the size of a message that a plugin must be able to take, in
	// bytes; MaxAnswer that of one the harness takes from a plugin.
	MaxMessage = 64 << 20
	MaxAnswer  = 16 << 20
)
