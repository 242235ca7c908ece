//go:build !long

package main

// manyFrames is how many turns a long session has.
const manyFrames = 40
