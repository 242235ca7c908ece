//go:build linux && !long

package main

import "time"

const (
	// stall is how long a client does not read (case B75).
	stall = 2 * time.Second
	// largeOutput is how much a program writes, in bytes (case B67).
	largeOutput = 20_000_000
)
