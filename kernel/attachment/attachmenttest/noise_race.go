//go:build race

package attachmenttest

// withNoise is off: the race detector makes minutes of these megapixels, which
// one goroutine encodes.
const withNoise = false
