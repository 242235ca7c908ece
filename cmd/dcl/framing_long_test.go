//go:build long

package main

// manyFrames is how many turns a long session has (case B02).
const manyFrames = 3000
