package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"dsh/kernel/settings"
	"dsh/plugins/internal/settingsfile"
)

// serversKey is the object of MCP servers in a settings file.
const serversKey = "mcpServers"

// ErrServerExists: a settings file has a server of that name.
var ErrServerExists = errors.New("there is a server of that name")

// AddServer writes an MCP server into the file of a layer, which is made when it
// is not there; a name that the file has is ErrServerExists.
func AddServer(ctx context.Context, l settings.Layer, name string, server settings.MCPServer) error {
	// What a person keeps for themselves may hold secrets.
	perm := fs.FileMode(0o600)
	if l.Scope == settings.ScopeProject {
		perm = 0o644
	}
	return settingsfile.Edit(ctx, l.File, perm, func(d *settingsfile.Document) error {
		if d.Has(serversKey, name) {
			return fmt.Errorf("%s: %w: %q", l.File, ErrServerExists, name)
		}
		return d.Set(server, serversKey, name)
	})
}

// RemoveServer takes an MCP server out of the file of a layer; removed is false
// when the file does not have it.
func RemoveServer(ctx context.Context, l settings.Layer, name string) (removed bool, err error) {
	if !l.Exists {
		return false, nil
	}
	err = settingsfile.Edit(ctx, l.File, 0, func(d *settingsfile.Document) (err error) {
		removed, err = d.Remove(serversKey, name)
		return err
	})
	return removed, err
}
