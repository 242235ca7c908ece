package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"dsh/kernel"
	"dsh/kernel/settings"
	"dsh/plugins/internal/contextfile"
)

// Names of the files.
const (
	settingsName = "settings.json"
	localName    = "settings.local.json"
)

// Settings is a settings.Source over files.
type Settings struct {
	config Config
	owner  *kernel.Owner
	log    *slog.Logger
	// user are the folders with the user's settings.
	user  []string
	trust *trusted
	files contextfile.Cache[content]
	// notices are what is said once.
	notices *contextfile.Notices

	mu sync.Mutex
	// flags is the layer above the files: what Config.Flags says, until SetFlags.
	flags content
	// asked are the files of the working directories that somebody asked For, as
	// they were then, and dirs those directories; both only grow, up to maxAsked.
	asked map[string]fs.FileInfo
	dirs  map[string]bool
	watch *watch
}

var (
	_ settings.Source = (*Settings)(nil)
	_ settings.Flags  = (*Settings)(nil)
)

// New makes the source; no file is touched before somebody asks.
func New(p Params) (*Settings, error) {
	s := &Settings{
		config: p.Config, owner: p.Self.Owner, log: p.Self.Log,
		trust: newTrusted(p.Self.Home, p.Self.Log), notices: contextfile.NewNotices(p.Self.Log),
		asked: map[string]fs.FileInfo{}, dirs: map[string]bool{},
	}
	key, folders := "userFolders", p.Config.UserFolders
	if p.Config.UserFolder != "" {
		key, folders = "userFolder", []string{p.Config.UserFolder}
	}
	for _, name := range folders {
		dir, err := contextfile.Folder(p.Self.Home, name)
		if err != nil {
			return nil, kernel.Invalid(key, "%v", err)
		}
		s.user = append(s.user, dir)
	}
	var err error
	if s.flags, err = readFlags(p.Config.Flags, s.log); err != nil {
		return nil, kernel.Invalid("flags", "%v", err)
	}
	return s, nil
}

// place is where one layer is.
type place struct {
	scope, file, root string
	serversOnly       bool
}

// places lists the files of a working directory, low to high.
func (s *Settings) places(cwd string) []place {
	var list []place
	for _, dir := range s.user {
		list = append(list, place{settings.ScopeUser, filepath.Join(dir, settingsName), dir, false})
	}
	if s.config.MCPFile != "" {
		list = append(list, place{settings.ScopeProject, filepath.Join(cwd, s.config.MCPFile), cwd, true})
	}
	for _, name := range s.config.ProjectFolders {
		list = append(list, place{settings.ScopeProject, filepath.Join(cwd, name, settingsName), cwd, false})
	}
	for _, name := range s.config.ProjectFolders {
		list = append(list, place{settings.ScopeLocal, filepath.Join(cwd, name, localName), cwd, false})
	}
	return list
}

// For implements settings.Source.
func (s *Settings) For(cwd string) []settings.Layer {
	if abs, err := filepath.Abs(cwd); err == nil {
		cwd = abs
	}
	places := s.places(cwd)
	layers := make([]settings.Layer, len(places), len(places)+1)
	infos := make([]fs.FileInfo, len(places))
	trustedHere := sync.OnceValue(func() bool { return s.trusts(cwd) })
	for i, p := range places {
		layers[i] = settings.Layer{Scope: p.scope, File: p.file, Root: p.root, ServersOnly: p.serversOnly}
		l := &layers[i]
		l.Unread = !s.config.reads(p.scope)
		if !s.config.reads(p.scope) || i > 0 && slices.ContainsFunc(places[:i], func(q place) bool { return q.file == p.file }) {
			continue // a home is the workspace, too: its file is the user's
		}
		info, err := contextfile.Find(p.file)
		infos[i] = info
		switch {
		case err != nil:
			l.Exists, l.Err = true, fmt.Errorf("settings: %w", err)
		case info != nil:
			l.Exists = true
			c := s.files.Get(p.file, info, func() content { return s.read(p) })
			l.Err, l.Raw, l.Permissions, l.MCPServers = c.err, c.raw, c.permissions, c.servers
		}
		l.Trusted = s.config.consents(p.scope) || trustedHere()
	}
	s.remember(cwd, places, infos)
	s.mu.Lock()
	flags := s.flags
	s.mu.Unlock()
	return append(layers, settings.Layer{
		Scope: settings.ScopeFlag, Root: cwd, Exists: flags.raw != nil, Trusted: true,
		Permissions: flags.permissions, MCPServers: flags.servers, Raw: flags.raw,
	})
}

// SetFlags implements settings.Flags.
func (s *Settings) SetFlags(raw json.RawMessage) error {
	flags, err := readFlags(raw, s.log)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	same := bytes.Equal(flags.raw, s.flags.raw)
	s.flags = flags
	if !same && s.watch != nil {
		s.watch.flagged()
	}
	return nil
}

func (s *Settings) trusts(cwd string) bool {
	switch s.config.Trust {
	case trustAlways:
		return true
	case trustNever:
		return false
	}
	return s.trust.has(cwd)
}
