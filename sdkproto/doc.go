// Package sdkproto holds the types that a harness server and its clients share:
// the JSON-RPC methods and notifications, the session event vocabulary, content
// blocks and messages. Names are those of the wire (spec jsonrpc 2, 5, 6).
//
// The types of one fact are the same in memory, in the session log and on the
// wire, so that an event is encoded once.
package sdkproto
