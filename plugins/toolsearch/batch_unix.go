//go:build unix

package toolsearch

// batchSize bounds the paths on one command line, in bytes. Linux takes 2 MiB with
// the environment, macOS 1 MiB.
const batchSize = 160 << 10
