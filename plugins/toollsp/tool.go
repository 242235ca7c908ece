package toollsp

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"dsh/kernel/process"
	"dsh/kernel/tool"
	"dsh/kernel/workspace"
	"dsh/plugins/internal/failure"
	"dsh/plugins/internal/textfile"
	"dsh/sdkproto/wirejson"
)

// Operations of the tool.
const (
	opDefinition      = "goToDefinition"
	opReferences      = "findReferences"
	opHover           = "hover"
	opDocumentSymbol  = "documentSymbol"
	opWorkspaceSymbol = "workspaceSymbol"
	opImplementation  = "goToImplementation"
	opIncoming        = "incomingCalls"
	opOutgoing        = "outgoingCalls"
	opDiagnostics     = "diagnostics"
)

// question holds the arguments of LSP (spec stream-json 9).
type question struct {
	Operation string `json:"operation" jsonschema:"What to ask: goToDefinition, goToImplementation, findReferences, incomingCalls (who calls it), outgoingCalls (what it calls) and hover (type and documentation) are about the name at line and character; documentSymbol gives the outline of the file, diagnostics its errors and warnings; workspaceSymbol finds symbols by query." enum:"goToDefinition,findReferences,hover,documentSymbol,workspaceSymbol,goToImplementation,incomingCalls,outgoingCalls,diagnostics"`
	FilePath  string `json:"filePath" jsonschema:"The file, absolute or relative to the working directory. For workspaceSymbol any file of the language to search."`
	Line      int    `json:"line,omitzero" jsonschema:"The line of the name, counted from 1 as Read shows it."`
	Character int    `json:"character,omitzero" jsonschema:"The character of the line where the name stands, counted from 1 as editors show it."`
	Query     string `json:"query,omitzero" jsonschema:"For workspaceSymbol: the name to look for, or a part of it."`
}

// positioned says whether an operation is about a position.
func (q *question) positioned() bool {
	switch q.Operation {
	case opDocumentSymbol, opWorkspaceSymbol, opDiagnostics:
		return false
	}
	return true
}

// answered is the structured result of LSP (spec stream-json 9 leaves it free).
type answered struct {
	Operation string `json:"operation"`
	// FilePath is absolute.
	FilePath string `json:"filePath"`
	// Result is the text that the model gets.
	Result string `json:"result"`
	// ResultCount is how many results there are, also those that the text leaves out;
	// FileCount in how many files.
	ResultCount int `json:"resultCount"`
	FileCount   int `json:"fileCount"`
}

func (l *LSP) newTool() tool.Tool {
	return tool.Typed(tool.Spec{
		Name: "LSP",
		Description: "Asks a language server, which understands the code: where a name is defined, implemented or used, who calls a function, what type and documentation it has, what symbols a file or the workspace has, and which errors a file has. " +
			"It tells names apart that Grep cannot, so prefer it for finding definitions and uses, and use diagnostics to check a file after changing it. " +
			"Results are path:line:character with the line; lines and characters count from 1. " +
			"The first call for a language may take long, because its server has to read the workspace. If there is no server for a file, the result says which program is missing.",
		ReadOnly: true,
		Parallel: true,
		Subject:  tool.Subject{Rule: "Read", Kind: tool.SubjectPath, Member: "filePath"},
	}, l.call)
}

// Codes of failed calls, for programs.
const (
	codeArguments   = failure.Arguments
	codeNotFound    = "LSP_NOT_FOUND"
	codeNoFile      = "LSP_BAD_FILE"
	codeNoServer    = "LSP_NO_SERVER"
	codeTimeout     = "LSP_TIMEOUT"
	codeUnsupported = "LSP_UNSUPPORTED"
	codeRefused     = "LSP_REFUSED"
	codeFailed      = "LSP_SERVER_FAILED"
)

func failed(code, format string, args ...any) tool.Result {
	return failure.Result("LSPError", code, "", format, args...)
}

func shorten(text string, runes int) string {
	text, _ = textfile.Cut(text, runes)
	return text
}

func (l *LSP) call(ctx context.Context, in tool.Invocation, q question) (tool.Result, error) {
	path, err := workspace.Resolve(in.CWD, q.FilePath)
	switch {
	case err != nil:
		return failed(codeArguments, "filePath cannot be used: %v", err), nil
	case q.positioned() && q.Line < 1:
		return failed(codeArguments, "%s needs line, counted from 1", q.Operation), nil
	case q.positioned() && q.Character < 1:
		return failed(codeArguments, "%s needs character, counted from 1", q.Operation), nil
	case q.Operation == opWorkspaceSymbol && strings.TrimSpace(q.Query) == "":
		return failed(codeArguments, "workspaceSymbol needs query, the name to look for or a part of it"), nil
	}
	a := &asking{lsp: l, in: in, question: q, view: newView(in)}
	if a.file, err = readFile(path, l.config.MaxFile); err != nil {
		return a.unread(path, err), nil
	}
	if q.positioned() {
		if q.Line > len(a.file.lines) {
			return failed(codeArguments, "line %d does not exist: %s has %d lines", q.Line, a.show(path), len(a.file.lines)), nil
		}
		n, err := units(a.file.lines[q.Line-1], q.Character)
		if err != nil {
			return failed(codeArguments, "character %d of line %d does not exist: %v", q.Character, q.Line, err), nil
		}
		a.position = &lspPosition{q.Line - 1, n}
	}
	how, err := l.config.find(l.self.ID, path)
	if err != nil {
		return failed(codeNoServer, "%v", err), nil
	}
	found, err := l.work(ctx, in, how, a)
	if err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return a.failed(how.program, err), nil
	}
	return a.result(found)
}

// unread says why a file cannot be asked about.
func (a *asking) unread(path string, err error) tool.Result {
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failed(codeNotFound, "%s does not exist", a.show(path))
	case errors.As(err, &at):
		err = at.Err
	}
	return failed(codeNoFile, "%s cannot be read: %v", a.show(path), err)
}

// failed says why a server gave no answer.
func (a *asking) failed(program string, err error) tool.Result {
	var late *lateError
	var refused *jsonrpc2.Error
	switch {
	case errors.As(err, &late):
		return failed(codeTimeout, "%s: %v; try again later, or search with Grep", program, late)
	case errors.As(err, &refused) && refused.Code == codeMethodNotFound:
		return failed(codeUnsupported, "%s does not offer %s; search with Grep", program, a.question.Operation)
	case errors.As(err, &refused):
		return failed(codeRefused, "%s answers: %s%s", program, refused.Message, a.where())
	}
	return failed(codeFailed, "the language server %s has failed: %v", program, err)
}

// rootOf gives the workspace of a file: the working directory, or the repository of a
// file that is elsewhere.
func rootOf(cwd, path string) string {
	if within(cwd, path) {
		return cwd
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return cwd // such as the library of a language
		}
	}
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// work has a server answer, and another one if that one is lost with the first.
func (l *LSP) work(ctx context.Context, in tool.Invocation, how *launch, a *asking) (*findings, error) {
	root := rootOf(filepath.Clean(in.CWD), a.file.path)
	c, err := l.confinement(in, how, root)
	if err != nil {
		return nil, err
	}
	k := key{root, how.kind, words(c)}
	for again := false; ; again = true {
		found, err := l.once(ctx, in, k, how, c, a)
		var lost *lostError
		if !again && errors.As(err, &lost) && ctx.Err() == nil {
			continue
		}
		return found, err
	}
}

func (l *LSP) once(ctx context.Context, in tool.Invocation, k key, how *launch, c *process.Confinement, a *asking) (*findings, error) {
	s, err := l.take(k, how, c)
	if err != nil {
		return nil, err
	}
	defer l.release(s)
	select {
	case <-s.ready:
	default:
		if in.Progress != nil {
			in.Progress("starting " + how.program)
		}
	}
	// From here on it is the listener that tells of progress, alone.
	defer s.listen(in.Progress)()
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, time.Duration(l.config.LoadTimeout)+time.Duration(l.config.Timeout), errLate)
	defer cancel()
	doc, err := s.show(limited, a.file)
	if err != nil {
		return nil, err
	}
	if err := s.settle(limited); err != nil {
		return nil, err
	}
	limited, cancel = context.WithTimeoutCause(ctx, time.Duration(l.config.Timeout), errLate)
	defer cancel()
	found, err := a.ask(limited, s, doc)
	if err != nil {
		return nil, err
	}
	s.docs.mu.Lock()
	found.unwatched = s.docs.unwatched
	s.docs.mu.Unlock()
	return found, nil
}

// encode makes the result with its structured form.
func encode(m answered) (tool.Result, error) {
	res := tool.TextResult(m.Result)
	var err error
	res.Meta, err = wirejson.Marshal(m)
	return res, err
}
