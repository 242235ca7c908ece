package spill

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"dsh/kernel/session"
	"dsh/kernel/tool"
)

// maxName bounds the part of a file's name that comes from a call's id.
const maxName = 120

// maxSame bounds how many calls of a session may have the same id.
const maxSame = 10_000

// Spill makes the files. It implements tool.Spiller. The session store deletes
// them with their session.
type Spill struct{ root string }

// New makes a Spill that keeps its files below $DSH_HOME.
func New(home string) *Spill { return &Spill{filepath.Join(home, "spill")} }

// Spill implements tool.Spiller. Models use the same call id more than once: a
// later file of that id gets a number behind its name, because the log still
// speaks of the earlier one.
func (s *Spill) Spill(sessionID, callID string) (tool.SpillFile, error) {
	if err := session.CheckID(sessionID); err != nil {
		return nil, fmt.Errorf("keep output: %w", err)
	}
	dir := s.dir(sessionID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep output: %w", err)
	}
	base := filepath.Join(dir, fileName(callID))
	path := base
	for n := 2; ; n++ {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case err == nil:
			return file{f}, nil
		case !errors.Is(err, fs.ErrExist) || n > maxSame:
			return nil, fmt.Errorf("keep output: %w", err)
		}
		path = base + "." + strconv.Itoa(n)
	}
}

func (s *Spill) dir(sessionID string) string {
	return filepath.Join(s.root, session.EncodeID(sessionID))
}

func fileName(callID string) string {
	name := session.EncodeID(callID)
	if name == "" {
		return "call"
	}
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(callID))
	return name[:maxName-33] + "-" + hex.EncodeToString(sum[:16])
}

type file struct{ *os.File }

func (f file) Path() string { return f.Name() }
