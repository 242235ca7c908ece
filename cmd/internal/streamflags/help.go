package streamflags

import (
	"fmt"
	"slices"
	"strings"
)

// Help is the text of --help for a program of this name. commands are its
// commands with what each does, as rows of two cells.
func Help(program string, commands [][2]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `%[1]s runs a coding agent that a program drives: the Agent SDKs with their stream-json
protocol on standard input and output, or a script with one prompt.

  %[1]s --input-format stream-json --output-format stream-json   serve an SDK
  %[1]s -p "What is this folder about?"                          answer one prompt
`, program)
	if len(commands) > 0 {
		b.WriteString("\nCommands (see COMMAND --help):\n")
		for _, c := range commands {
			fmt.Fprintf(&b, "  %-13s %s\n", c[0], c[1])
		}
	}
	all := table()
	for _, group := range groups() {
		fmt.Fprintf(&b, "\n%s:\n", group)
		for i := range all {
			if f := &all[i]; f.section() == group {
				f.help(&b)
			}
		}
	}
	b.WriteString(`
A value stands behind its flag or behind an equals sign. Lists go on until the next
flag; -- ends the flags. Most flags set one key of a row of the profile, which is
named in brackets; --dump-config shows them all.

A prompt that begins with a slash and a word is a command: /clear, /compact,
/context, /cost, /help and /model are built in, and files, skills and plugins add
others. The prompt /help lists them.
`)
	return b.String()
}

func (f *flag) section() string {
	if f.ignored != "" {
		return groupIgnored
	}
	return f.group
}

// helpWidth is where the explanations begin.
const helpWidth = 36

func (f *flag) help(b *strings.Builder) {
	var short, long []string
	for _, other := range f.others {
		if len(other) < 4 {
			short = append(short, "-"+other)
		} else {
			long = append(long, "--"+other)
		}
	}
	head := strings.Join(slices.Concat(short, []string{"--" + f.name}, long), ", ")
	if f.value != "" && f.kind == kindOptional {
		head += " [" + f.value + "]"
	} else if f.value != "" {
		head += " " + f.value
	}
	if f.kind == kindList {
		head += "..."
	}
	text := f.usage
	if f.ignored != "" {
		text = f.ignored
	}
	if f.key != "" {
		text += " [" + f.key + "]"
	}
	if len(head) > helpWidth-2 {
		fmt.Fprintf(b, "  %s\n  %*s%s\n", head, helpWidth, "", text)
		return
	}
	fmt.Fprintf(b, "  %-*s%s\n", helpWidth, head, text)
}
