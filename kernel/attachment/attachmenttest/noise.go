//go:build !race

package attachmenttest

// withNoise has the suite encode megapixels of noise.
const withNoise = true
