//go:build unix && !long

package main

// rounds is how often TestB98 does its work.
const rounds = 3
