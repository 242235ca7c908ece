package external

import (
	"context"
	"runtime"
	"slices"
	"strings"

	"dsh/kernel/credential"
)

// granted are the variables that every plugin gets if they are set; one that
// ends in an asterisk stands for all that begin so.
func granted() []string {
	if runtime.GOOS == "windows" {
		return []string{
			"PATH", "PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "TEMP", "TMP", "USERPROFILE", "USERNAME",
			"APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE",
		}
	}
	return []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR"}
}

// environment is what a plugin gets of ours: what is granted to all without the
// credentials (decision D28), and what the row asks for. secrets are the values
// of the latter, which no log may show; missing are names nobody has.
func environment(ctx context.Context, ours, credentials, asked []string, source credential.Source) (env []string, secrets []credential.Secret, missing []string) {
	same := func(a, b string) bool {
		return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b)
	}
	is := func(name string) func(string) bool {
		return func(other string) bool {
			prefix, all := strings.CutSuffix(other, "*")
			return same(name, other) || all && strings.HasPrefix(name, prefix)
		}
	}
	all := granted()
	for _, v := range ours {
		name, _, _ := strings.Cut(v, "=")
		if slices.ContainsFunc(all, is(name)) && !slices.ContainsFunc(credentials, is(name)) && !slices.ContainsFunc(asked, is(name)) {
			env = append(env, v)
		}
	}
	for _, name := range asked {
		value, found := "", false
		for _, v := range ours {
			if n, rest, _ := strings.Cut(v, "="); same(n, name) {
				value, found = rest, true
			}
		}
		if !found && source != nil {
			if s, err := source.Lookup(ctx, name); err == nil {
				value, found = s.Reveal(), true
			}
		}
		if !found {
			missing = append(missing, name)
			continue
		}
		env = append(env, name+"="+value)
		if s, err := credential.Parse(name, "", value); err == nil && len(value) >= shortestSecret {
			secrets = append(secrets, s)
		}
	}
	return env, secrets, missing
}

// shortestSecret is the length from which a value is taken out of logs: shorter
// ones are no secrets, and to replace them would garble the text.
const shortestSecret = 6
