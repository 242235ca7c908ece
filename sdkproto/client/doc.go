// Package client drives a harness server over its JSON-RPC wire: it starts the
// server's process or takes over a pair of streams, initializes it, sends
// prompts, and follows what a prompt sets off to its end.
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
// # Flow
//
// The server's output is always read, whatever its consumers do, so that a run
// which nobody looks at delays neither the server nor another session. What a
// consumer has not taken yet waits in a queue of its own, bounded by
// Limits.Queue. When that is full the events of this one consumer break off
// with ErrMissed; the outcome of a run is kept apart from its events and stays
// right (Run.Result). There is no back-pressure on the server.
//
// # Ends
//
// A context given to a method ends the waiting of the caller, never the work of
// the server: this wire has no way to withdraw what was sent. A server that
// ends fails everybody who waits with an error that wraps ErrLost, after the
// notifications it had sent; that of a process is an *ExitError with exit code
// and the last of stderr. Close ends the server and every goroutine of the
// client.
package client
