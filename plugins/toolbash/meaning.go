package toolbash

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// meansNoFailure says what exit code 1 of a command line means when it comes from
// a program that answers with it: grep, rg, find, diff, test, git diff and git
// grep (spec stream-json 9). "" is a failure.
func meansNoFailure(command string) string {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return ""
	}
	return lastMeaning(file.Stmts)
}

// neverFails stands for a program that has no exit code 1 of its own.
const neverFails = "it does not fail"

func lastMeaning(stmts []*syntax.Stmt) string {
	if len(stmts) == 0 {
		return ""
	}
	if m := meaningOf(stmts[len(stmts)-1]); m != neverFails {
		return m
	}
	return ""
}

// meaningOf looks at whatever may have given the code of a statement; "" when
// that may have been a failure.
func meaningOf(s *syntax.Stmt) string {
	if s.Negated || s.Background || s.Coprocess {
		return ""
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		return programMeaning(c.Args)
	case *syntax.TestClause:
		return conditionFalse
	case *syntax.Block:
		return lastMeaning(c.Stmts)
	case *syntax.Subshell:
		return lastMeaning(c.Stmts)
	case *syntax.BinaryCmd:
		right := meaningOf(c.Y)
		if c.Op != syntax.AndStmt {
			return right
		}
		// Either of them may have been the last that ran.
		left := meaningOf(c.X)
		if left == "" || right == "" {
			return ""
		}
		if right == neverFails {
			return left
		}
		return right
	}
	return ""
}

const conditionFalse = "the condition is false"

func programMeaning(words []*syntax.Word) string {
	args := make([]string, len(words))
	for i, w := range words {
		args[i] = w.Lit() // "" for one that is made when it runs
	}
	for len(args) > 0 && args[0] == "command" {
		args = args[1:]
	}
	if len(args) == 0 {
		return ""
	}
	switch path.Base(args[0]) {
	case "grep", "egrep", "fgrep", "rg":
		return "nothing matches"
	case "find":
		return "some folders could not be read"
	case "diff":
		return "the files differ"
	case "test", "[":
		return conditionFalse
	case "echo", "printf", "true":
		return neverFails
	case "git":
		switch gitVerb(args[1:]) {
		case "diff":
			return "the files differ"
		case "grep":
			return "nothing matches"
		}
	}
	return ""
}

// gitVerb is the first argument that is no option of git itself.
func gitVerb(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case slices.Contains([]string{"-C", "-c", "--git-dir", "--work-tree", "--namespace"}, args[i]):
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i]
		}
	}
	return ""
}
