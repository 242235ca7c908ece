// Package streamclient drives a harness over its stream-json wire: it starts dcl,
// or any program with the same wire, sends it messages, answers what it asks, and
// follows each message to its result.
//
//	s, err := streamclient.Start(ctx, streamclient.Options{
//		Args: []string{"--model", "deepseek-chat"},
//		CanUseTool: func(ctx context.Context, q streamjson.CanUseTool) (streamjson.Permission, error) {
//			if q.ToolName == "Bash" {
//				return streamclient.Deny("no shell here"), nil
//			}
//			return streamclient.Allow(), nil
//		},
//	})
//	...
//	defer s.Close(context.Background())
//	turn, err := s.Query(ctx, "what is in this folder?")
//	...
//	for line, err := range turn.Lines(ctx) {
//		...
//		switch m := line.Body.(type) {
//		case *streamjson.Assistant: // one block of an answer
//		case *streamclient.User: // the outcome of a tool call
//		}
//	}
//	result, err := turn.Result(ctx)
//
// Query alone is a whole session for one prompt. A process is one session:
// messages that are sent while one is worked on wait in the program.
//
// # Questions of the program
//
// Options.CanUseTool decides on tool calls, Options.Hooks take part in a turn,
// Options.Elicit answers MCP servers, and Options.MCPServers are MCP servers
// inside this process; NewToolServer makes one of plain functions. Each call of
// them runs in a goroutine of its own, with a context that ends when the program
// takes the question back or is gone. What is not set is answered with an error,
// which refuses.
//
// # Flow
//
// The program's output is always read, whatever its consumers do. What a consumer
// has not taken yet waits in a queue of its own, bounded by Limits.Queue. When
// that is full its lines break off with ErrMissed; the result of a turn is kept
// apart from its lines and stays right.
//
// # Ends
//
// A context given to a method ends the waiting of the caller, never the turn;
// Session.Interrupt does that. A program that ends fails everybody who waits with
// an error that wraps ErrLost, as a rule an *ExitError with exit code and the last
// of stderr. Close ends the program and every goroutine of the session.
package streamclient
