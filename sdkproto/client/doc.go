// Package client drives a harness server over its JSON-RPC wire: it starts the
// server's process or takes over a pair of streams, initializes it, sends
// prompts, and follows what a prompt sets off to its end. Package streamclient, in
// a folder of this one, does the same over the stream-json wire.
//
//	c, err := client.Start(ctx, client.Options{
//		Command:    "dsh",
//		Args:       []string{"--profile", "sdk"},
//		Initialize: sdkproto.InitializeParams{Provider: "scripted", Model: "demo"},
//	})
//	...
//	defer c.Close(context.Background())
//	run, err := c.Session("").Run(ctx, sdkproto.Text("hello"))
//	...
//	for n, err := range run.Events() { ... }
//	result, err := run.Result(ctx)
//
// # Extensions
//
// What goes beyond the plain protocol (spec jsonrpc 13.3) is asked for in
// Options.Initialize; a client that asks for nothing sends and gets the plain
// protocol.
//
//	Initialize: sdkproto.InitializeParams{
//		Provider: "scripted", Model: "demo",
//		InitializeExtensions: sdkproto.InitializeExtensions{
//			ProtocolVersion: sdkproto.ProtocolVersion, // fills Client.Offer, and Details of errors
//			Capabilities: &sdkproto.ClientCapabilities{
//				Notifications: []string{sdkproto.NotifyUsage, sdkproto.NotifyTreeStatus},
//				Chunks:        new(false), // no assistant/chunk events
//			},
//		},
//	},
//	Limits: client.Limits{Silence: 30 * time.Second}, // fail with ErrSilent, not never
//
// The notifications asked for come with the others, in Run.Events and
// Client.Notifications. Methods need not be asked for: Client.Ping, Status and
// Sessions, Session.Cancel, Steer, Wait, Close, Resume, Events and Follow. What the server
// does not have fails with ErrNotOffered.
//
// Options.Approve lets the server ask whether a tool call may run:
//
//	Approve: func(ctx context.Context, r sdkproto.ApprovalRequest) (sdkproto.ApprovalResult, error) {
//		if yes(ctx, r) {
//			return sdkproto.ApprovalResult{Outcome: sdkproto.ApprovalAllowedOnce}, nil
//		}
//		return sdkproto.ApprovalResult{Outcome: sdkproto.ApprovalRejected}, nil
//	},
//
// An image goes into a prompt as sdkproto.InlineImage(name, mimeType, bytes); the
// server keeps it and the events refer to it.
//
// # Flow
//
// The server's output is always read, whatever its consumers do, so that a run
// which nobody looks at delays neither the server nor another session. What a
// consumer has not taken yet waits in a queue of its own, bounded by
// Limits.Queue. When that is full the events of this one consumer break off
// with ErrMissed; the outcome of a run is kept apart from its events and stays
// right (Run.Result), Session.Events reads what was missed from the server's
// store, and Session.Follow does so by itself. There is no back-pressure on the server.
//
// # Ends
//
// A context given to a method ends the waiting of the caller, never the work of
// the server; Session.Cancel does that, where it is offered. A server that
// ends fails everybody who waits with an error that wraps ErrLost, after the
// notifications it had sent; that of a process is an *ExitError with exit code
// and the last of stderr. Close ends the server and every goroutine of the
// client.
package client
