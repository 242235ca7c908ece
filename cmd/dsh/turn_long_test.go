//go:build unix && long

package main

const rounds = 60
