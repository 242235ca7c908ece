// Package llmtest tests model adapters against a fake provider: a real HTTP
// server that refuses what the real ones refuse and sends what they send. Every
// adapter of the chat-completions protocol runs TestAdapter; the server is there
// for other tests too.
package llmtest
