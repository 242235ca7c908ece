// Package streamjson holds the types of the stream-json wire (spec stream-json):
// lines of JSON between a host program and the harness.
package streamjson

// Result is the line that ends a turn (spec stream-json 3.7).
type Result struct{}
