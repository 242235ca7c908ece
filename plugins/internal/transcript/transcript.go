// Package transcript says where the transcripts of sessions are, in the layout
// that the SDKs read (spec stream-json 10.1). It reads names only, never what is in a
// transcript.
package transcript

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"
)

// variable names the folder that holds the transcripts, among other things.
const variable = "CLAUDE_CONFIG_DIR"

// Dir is the folder of the SDKs: that of the environment, else .claude in the
// home folder; "" when there is neither.
func Dir() string {
	dir := os.Getenv(variable)
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".claude")
	}
	return norm.NFC.String(dir)
}

// Path is the file of a session: dir is that of Dir, cwd the session's working
// directory.
func Path(dir, cwd, sessionID string) string {
	return filepath.Join(project(dir, cwd), sessionID+extension)
}

// AgentPath is the file of a subagent of a session.
func AgentPath(dir, cwd, sessionID, agentID string) string {
	return filepath.Join(project(dir, cwd), sessionID, "subagents", "agent-"+agentID+extension)
}

func project(dir, cwd string) string {
	if real, err := filepath.EvalSymlinks(cwd); err == nil {
		cwd = real
	}
	return filepath.Join(dir, "projects", Key(cwd))
}

// mostKey is how many characters of a path its key keeps.
const mostKey = 200

// Key names the folder of a working directory, whose links have been followed.
// The readers of this layout count characters by code points.
func Key(cwd string) string {
	cwd = norm.NFC.String(cwd)
	key := strings.Map(func(r rune) rune {
		switch {
		case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
			return r
		}
		return '-'
	}, cwd)
	if len(key) <= mostKey {
		return key
	}
	var h int32 // it wraps, which is meant
	for _, r := range cwd {
		h = h*31 + r
	}
	// In 64 bits the least of 32 has an absolute value, too.
	return key[:mostKey] + "-" + strconv.FormatInt(max(int64(h), -int64(h)), 36)
}

// Find gives the file of a session that has something in it: in the project of a
// working directory, or else in any other; "" when there is none (spec stream-json
// 10.3). A folder of a long path may have another hash.
func Find(dir, cwd, sessionID string) string {
	if dir == "" || sessionID == "" || sessionID != filepath.Base(sessionID) {
		return ""
	}
	for _, project := range projects(dir, cwd, true) {
		path := filepath.Join(project, sessionID+extension)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			return path
		}
	}
	return ""
}

// File is the transcript of a session.
type File struct {
	SessionID, Path string
	Modified        time.Time
}

// List gives the transcripts of a working directory's project, those that were
// changed last first.
func List(dir, cwd string) []File {
	if dir == "" {
		return nil
	}
	return filesOf(projects(dir, cwd, false))
}

// All gives the transcripts of all working directories, those that were changed
// last first.
func All(dir string) []File {
	if dir == "" {
		return nil
	}
	base := filepath.Join(dir, "projects")
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil
	}
	var folders []string
	for _, e := range entries {
		folders = append(folders, filepath.Join(base, e.Name()))
	}
	return filesOf(folders)
}

func filesOf(folders []string) (list []File) {
	for _, project := range folders {
		entries, err := os.ReadDir(project)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), extension)
			info, err := e.Info()
			if !ok || err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
				continue
			}
			list = append(list, File{name, filepath.Join(project, e.Name()), info.ModTime()})
		}
	}
	slices.SortStableFunc(list, func(a, b File) int { return b.Modified.Compare(a.Modified) })
	return list
}

const extension = ".jsonl"

// projects are the folders of a working directory, its own first, and with others
// those of all others.
func projects(dir, cwd string, others bool) []string {
	own := project(dir, cwd)
	list := []string{own}
	entries, err := os.ReadDir(filepath.Dir(own))
	if err != nil {
		return list
	}
	prefix := ""
	if name := filepath.Base(own); len(name) > mostKey {
		prefix = name[:mostKey+1]
	}
	var rest []string
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(own), e.Name())
		switch {
		case path == own:
		case prefix != "" && strings.HasPrefix(e.Name(), prefix):
			list = append(list, path)
		case others:
			rest = append(rest, path)
		}
	}
	return append(list, rest...)
}
