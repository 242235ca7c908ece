//go:build unix && !long

package toolbash

const large = 20_000_000
