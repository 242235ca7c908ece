package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	paths "dsh/plugins/internal/transcript"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// Info is what a listing shows of a transcript (spec stream-json 10.2).
type Info struct {
	SessionID, Path string
	// CWD is the working directory, "" where no entry near the beginning has one.
	CWD string
	// Named is the title that somebody gave the session, Title what stands for one
	// where there is none: what a model or a client made of it, or a prompt.
	Named, Title string
	// Created is the time of the first entry, else that of the file's last change.
	Created time.Time
}

// List gives the sessions that have a transcript of a working directory, or of all
// for "", those that were changed last first. Files in which nothing was said, or
// that are none, are left out.
func List(cwd string) (list []Info) {
	dir := paths.Dir()
	if abs, err := filepath.Abs(dir); err == nil && dir != "" {
		dir = abs
	}
	files := paths.All(dir)
	if cwd != "" {
		files = paths.List(dir, cwd)
	}
	for _, f := range files {
		if len(f.SessionID) != 36 || uuid.Validate(f.SessionID) != nil {
			continue
		}
		info := Info{SessionID: f.SessionID, Path: f.Path}
		if info.look() {
			info.Created = cmp.Or(info.Created, f.Modified)
			list = append(list, info)
		}
	}
	return list
}

// glance is what is read of a line for a listing.
type glance struct {
	stored

	CWD        string `json:"cwd"`
	LastPrompt string `json:"lastPrompt"`
	Summary    string `json:"summary"`
}

// look reads the beginning and the end of a file, as the readers of the SDKs do.
func (i *Info) look() (listed bool) {
	f, err := os.Open(i.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	head, end, err := ends(f)
	if err != nil || bytes.Contains(firstLine(head), []byte(`"isSidechain":true`)) {
		return false
	}
	first := ""
	for line := range bytes.Lines(head) {
		var g glance
		if wirejson.Unmarshal(line, &g) != nil {
			continue
		}
		i.CWD = cmp.Or(i.CWD, g.CWD)
		if at, err := time.Parse(time.RFC3339, g.Timestamp); err == nil && i.Created.IsZero() {
			i.Created = at
		}
		if first == "" && g.Type == typeUser && !g.IsMeta && !g.IsCompactSummary {
			first = promptOf(&g.stored)
		}
	}
	var made, prompt, summary string
	for line := range bytes.Lines(end) {
		var g glance
		if wirejson.Unmarshal(line, &g) != nil {
			continue
		}
		switch g.Type {
		case typeCustomTitle:
			i.Named = cmp.Or(g.CustomTitle, i.Named)
		case typeAITitle:
			made = cmp.Or(g.AITitle, made)
		case typeLastPrompt:
			prompt = cmp.Or(g.LastPrompt, prompt)
		case "summary":
			summary = cmp.Or(g.Summary, summary)
		}
	}
	i.Title = cmp.Or(made, prompt, summary, first)
	return i.Named != "" || i.Title != ""
}

// ends reads the first and the last bytes of a file; the lines in them that are
// cut are no JSON, and nobody reads them.
func ends(f *os.File) (head, end []byte, err error) {
	head, err = io.ReadAll(io.LimitReader(f, tail))
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	end, err = io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-tail), tail))
	return head, end, err
}

func firstLine(data []byte) []byte {
	line, _, _ := bytes.Cut(data, []byte{'\n'})
	return line
}

// promptOf gives what a user said in an entry; "" for results of calls, and for
// what a command of the client has put in.
func promptOf(e *stored) string {
	var m struct {
		Content json.RawMessage `json:"content"`
	}
	if wirejson.Unmarshal(e.Message, &m) != nil {
		return ""
	}
	var said []sdkproto.Block
	for _, b := range blocksOf(m.Content) {
		switch {
		case b.Type == streamjson.BlockToolResult:
			return ""
		case b.Type == streamjson.BlockText && !strings.HasPrefix(strings.TrimSpace(b.Text), "<local-command-"):
			said = append(said, sdkproto.Text(b.Text))
		}
	}
	return sdkproto.Brief(said, mostListed)
}
