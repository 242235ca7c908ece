package process

import (
	"runtime"
	"slices"
	"strings"
)

// Environment is what a program gets of the harness's own environment: all of it
// but the variables that hold credentials (decision D28), and those of drop, such as
// PWD.
func Environment(own, credentials []string, drop ...string) []string {
	env := make([]string, 0, len(own)+8)
	for _, v := range own {
		is := func(other string) bool { return SameName(NameOf(v), other) }
		if !slices.ContainsFunc(credentials, is) && !slices.ContainsFunc(drop, is) {
			env = append(env, v)
		}
	}
	return env
}

// NameOf gives the name of a NAME=VALUE pair.
func NameOf(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	return name
}

// SameName reports whether two names of variables are one to the system.
func SameName(a, b string) bool {
	if runtime.GOOS == "windows" {
		return strings.EqualFold(a, b)
	}
	return a == b
}
