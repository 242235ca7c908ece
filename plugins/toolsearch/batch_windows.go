package toolsearch

// batchSize bounds the paths on one command line, in bytes.
const batchSize = 16 << 10
