// Package transcript says where the transcripts of sessions are, in the layout
// that the SDKs read (spec stream-json 10.1). It touches no file but to follow the
// links of a working directory.
package transcript

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

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
	return filepath.Join(project(dir, cwd), sessionID+".jsonl")
}

// AgentPath is the file of a subagent of a session.
func AgentPath(dir, cwd, sessionID, agentID string) string {
	return filepath.Join(project(dir, cwd), sessionID, "subagents", "agent-"+agentID+".jsonl")
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
