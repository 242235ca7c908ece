//go:build unix && long

package toolbash

const large = 500_000_000
