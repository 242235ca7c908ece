package toolfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"dsh/kernel"
	"dsh/kernel/attachment"
	"dsh/kernel/tool"
	"dsh/kernel/workspace"
	"dsh/plugins/internal/dialect"
	"dsh/plugins/internal/failure"
	"dsh/plugins/internal/textfile"
)

// Files offers the tools read, write and edit (decision D20), or those of the
// dialect claude.
type Files struct {
	config Config
	owner  *kernel.Owner
	tools  *tool.Registry
	images attachment.Store
	locks  locks
	seen   *seen

	read, write, edit tool.Tool
	// notebook is nil under the dialect dsh, readImage under the other and without a
	// place for images.
	notebook, readImage tool.Tool
	// numberEnd stands between a line's number and its text.
	numberEnd string
	// names of other tools that errors speak of.
	globName, writeName, readName string
}

// New makes the tools; register puts them where the agents find them.
func New(p Params) *Files { return newFiles(p.Config, p.Self.Owner, p.Tools, p.Images) }

func newFiles(c Config, o *kernel.Owner, r *tool.Registry, images attachment.Store) *Files {
	f := &Files{config: c, owner: o, tools: r, images: images, locks: locks{held: map[string]*lock{}}, seen: newSeen()}
	if c.Dialect == dialect.Claude {
		f.claude()
		return f
	}
	f.numberEnd, f.globName, f.writeName, f.readName = ": ", "glob", "write", "read"
	f.read = tool.Typed(tool.Spec{
		Name: "read",
		Description: fmt.Sprintf("Reads a text file. Each line comes with its number and a colon in front, which are not part of the file. "+
			"Gives up to %d lines unless limit says otherwise; use offset to read on in a long file. "+
			"Use glob to list a folder and grep to find a place in large files.", c.ReadLines),
		ReadOnly: true,
		Parallel: true,
		Subject:  tool.Subject{Rule: "Read", Kind: tool.SubjectPath, Member: "file_path"},
	}, f.callRead)
	f.write = tool.Typed(tool.Spec{
		Name: "write",
		Description: "Writes a whole text file: creates it, with the folders above it, or replaces all that it holds. " +
			"To change parts of a file use edit.",
		Destructive: true,
		Subject:     tool.Subject{Rule: "Write", Kind: tool.SubjectPath, Member: "file_path"},
	}, f.callWrite)
	f.edit = tool.Typed(tool.Spec{
		Name: "edit",
		Description: "Replaces text in a file. old_string must be in the file exactly as given, white space included and without the line numbers that read shows, " +
			"and only once, unless replace_all is set: add lines around it until it is unique. Line ends need not agree; those of the file are kept.",
		Destructive: true,
		Subject:     tool.Subject{Rule: "Edit", Kind: tool.SubjectPath, Member: "file_path"},
	}, f.callEdit)
	if images != nil {
		f.readImage = f.imageTool()
	}
	return f
}

func (f *Files) register() error {
	for _, t := range []tool.Tool{f.read, f.write, f.edit, f.notebook, f.readImage} {
		if t == nil {
			continue
		}
		if err := f.tools.Register(f.owner, t); err != nil {
			return err
		}
	}
	return nil
}

// Codes of failed calls, for programs.
const (
	codeArguments = failure.Arguments
	codeNotFound  = "FS_NOT_FOUND"
	codeNotFile   = "FS_NOT_A_FILE"
	codeBinary    = "FS_BINARY"
	codeTooLarge  = "FS_TOO_LARGE"
	codeNoMatch   = "FS_NO_MATCH"
	codeNotUnique = "FS_NOT_UNIQUE"
	codeFailed    = "FS_FAILED"
	codeNotebook  = "FS_NOTEBOOK"
	codeImage     = "FS_IMAGE"
	codePDF       = "FS_PDF"
	codeChanged   = "FS_CHANGED"
)

func failed(code, format string, args ...any) tool.Result {
	return failure.Result("FsError", code, "Error: ", format, args...)
}

// describe makes a result of an error at path; doing is "read" or the like.
func (f *Files) describe(doing, path string, err error) tool.Result {
	var kind *textfile.KindError
	var at *fs.PathError
	switch {
	case errors.Is(err, errMoved):
		return failed(codeChanged, "cannot %s %q: another program changed it at this moment; nothing was written, read it again", doing, path)
	case errors.As(err, &kind) && kind.Kind == textfile.DirectoryKind:
		return failed(codeNotFile, "cannot %s %q: it is a directory; use %s with the pattern %q to list it", doing, path, f.globName, filepath.Join(path, "**"))
	case errors.As(err, &kind):
		return failed(codeNotFile, "cannot %s %q: it is %s; only regular files can be used", doing, path, kind.Kind)
	case errors.Is(err, fs.ErrNotExist):
		return failed(codeNotFound, "cannot %s %q: not found%s", doing, path, near(path))
	case errors.As(err, &at):
		return failed(codeFailed, "cannot %s %q: %v", doing, path, at.Err)
	}
	return failed(codeFailed, "cannot %s %q: %v", doing, path, err)
}

// maxLinks is how many links to a missing target are followed in a row.
const maxLinks = 40

// target gives the path of the file that is to be replaced: all links are
// followed, also those whose target does not exist yet.
func target(cwd, path string) (string, error) {
	for range maxLinks {
		real, err := workspace.Real(cwd, path)
		if err != nil {
			return "", err
		}
		info, err := os.Lstat(real)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return real, nil
		}
		if path, err = os.Readlink(real); err != nil {
			return "", err
		}
		cwd = filepath.Dir(real)
	}
	return "", fmt.Errorf("%q leads through too many links; name the file itself", path)
}

// cancelled gives the reason why a call is over, if it is.
func cancelled(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func printable(s string) string {
	s, _ = textfile.Printable([]byte(s))
	return s
}
