package settings

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"dsh/kernel/profile"
	"dsh/kernel/settings"
	"dsh/plugins/internal/settingsfile"
	"dsh/sdkproto/wirejson"
)

// content is what one file holds. It is shared by all who ask and not changed.
type content struct {
	err         error
	raw         json.RawMessage
	permissions settings.Permissions
	servers     map[string]settings.MCPServer
}

// fields are the members that this package reads.
type fields struct {
	Permissions settings.Permissions          `json:"permissions"`
	MCPServers  map[string]settings.MCPServer `json:"mcpServers"`
}

// read reads a file that is there.
func (s *Settings) read(p place) content {
	c := content{}
	d, err := settingsfile.Read(p.file)
	if err == nil {
		c, err = decode(p.file, d, s.log)
	}
	if err != nil {
		err = fmt.Errorf("settings: %w", err)
		s.log.Warn("a settings file cannot be used", "file", p.file, "error", err)
		return content{err: err}
	}
	if p.serversOnly {
		c.permissions = settings.Permissions{}
	}
	return c
}

// flagsName is what errors and warnings call the layer above the files.
const flagsName = "the settings given at the start"

// readFlags reads the text of that layer; without one there is nothing in it.
func readFlags(text json.RawMessage, log *slog.Logger) (content, error) {
	if len(text) == 0 || string(text) == "null" {
		return content{}, nil
	}
	d, err := settingsfile.Parse(text)
	if err != nil {
		return content{}, fmt.Errorf("%s:%w", flagsName, err)
	}
	return decode(flagsName, d, log)
}

// decode gives what a document says; name is that of its file.
func decode(name string, d *settingsfile.Document, log *slog.Logger) (content, error) {
	var f fields
	if err := wirejson.Unmarshal(d.JSON(), &f); err != nil {
		return content{}, fmt.Errorf("%s:%w", name, d.Locate(err))
	}
	if err := checkKeys(name, d, log); err != nil {
		return content{}, err
	}
	raw, err := wirejson.Compact(d.JSON())
	if err != nil {
		return content{}, fmt.Errorf("%s: %w", name, err)
	}
	return content{raw: raw, permissions: f.Permissions, servers: f.MCPServers}, nil
}

// Keys of a settings file that mean something to somebody: those of spec
// stream-json 7.4 and what other programs that share these files keep in them.
func knownKeys() []string {
	return []string{
		"$schema", "permissions", "mcpServers", "model", "effortLevel", "env", "hooks", "outputStyle", "sandbox",
		"enabledMcpjsonServers", "disabledMcpjsonServers", "enableAllProjectMcpServers", "disableAllHooks",
		"apiKeyHelper", "attribution", "availableModels", "cleanupPeriodDays", "companyAnnouncements", "enabledPlugins",
		"extraKnownMarketplaces", "fileSuggestion", "forceLoginMethod", "includeCoAuthoredBy", "includeGitInstructions",
		"language", "plansDirectory", "respectGitignore", "spinnerTipsEnabled", "statusLine", "theme", "agent",
		"alwaysThinkingEnabled", "autoUpdatesChannel", "showTurnDuration", "skipWebFetchPreflight",
	}
}

func ruleKeys() []string { return []string{"allow", "ask", "deny"} }

func permissionKeys() []string {
	return append(ruleKeys(), "defaultMode", "additionalDirectories", "disableBypassPermissionsMode")
}

func serverKeys() []string {
	return []string{"type", "command", "args", "env", "url", "headers", "timeout", "disabled"}
}

// checkKeys looks for names that are mistaken for others (case B84). Unknown keys
// stay, because other programs share these files: a name near to a known one is
// worth a warning, and where rules would be lost it makes the file unusable.
func checkKeys(file string, d *settingsfile.Document, log *slog.Logger) error {
	at := func(path ...string) string {
		line, col := d.AtPath(path...)
		return fmt.Sprintf("%s:%d:%d", file, line, col)
	}
	warn := func(hint string, path ...string) {
		log.Warn("a settings file has an unknown key", "at", at(path...), "key", path[len(path)-1], "hint", strings.TrimPrefix(hint, "; "))
	}
	// near gives the known key that another one is meant to be, as a hint.
	near := func(key string, known []string) string {
		if slices.Contains(known, key) {
			return ""
		}
		return profile.DidYouMean(key, known)
	}
	top := []string{"permissions"}
	for _, key := range d.Keys() {
		switch {
		case slices.Contains(ruleKeys(), key):
			return fmt.Errorf("%s: %q belongs into the object \"permissions\"; without that its rules would not hold", at(key), key)
		case slices.Contains(permissionKeys(), key):
			warn(`it belongs into the object "permissions"`, key)
		case near(key, top) != "":
			return fmt.Errorf("%s: unknown key %q%s", at(key), key, near(key, top))
		case near(key, knownKeys()) != "":
			warn(near(key, knownKeys()), key)
		}
	}
	for _, key := range d.Keys("permissions") {
		switch {
		case slices.Contains(permissionKeys(), key):
		case near(key, ruleKeys()) != "":
			return fmt.Errorf("%s: unknown key %q%s", at("permissions", key), key, near(key, ruleKeys()))
		case near(key, permissionKeys()) != "":
			warn(near(key, permissionKeys()), "permissions", key)
		}
	}
	for _, name := range d.Keys("mcpServers") {
		for _, key := range d.Keys("mcpServers", name) {
			if hint := near(key, serverKeys()); hint != "" {
				warn(hint, "mcpServers", name, key)
			}
		}
	}
	return nil
}
