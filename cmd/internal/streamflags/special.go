package streamflags

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dsh/kernel/settings"
	"dsh/plugins/mcp"
	"dsh/sdkproto/wirejson"
)

// Overrides are the keys of rows that the flags set, as profile.Options.Sets, and
// what messages call each of them. It reads the files that flags name; its error
// is a start that cannot work (spec stream-json 3.8, case B14), not a mistake of
// the command line.
func (l *Line) Overrides() (sets []string, names map[string]string, err error) {
	o := &overrides{line: l, names: map[string]string{}}
	for i := range l.flags {
		f := &l.flags[i]
		if f.key == "" || f.form == formSpecial || !l.given(f.name) {
			continue
		}
		value, err := f.form.json(l.values[f.name])
		if err != nil {
			return nil, nil, fmt.Errorf("--%s %w", f.name, err)
		}
		how := "="
		if f.form == formSchema {
			how = ":=" // a schema is one value, and null in it means null
		}
		o.put(f.name, f.key, how, value)
	}
	o.set("input-format", "front.inputFormat", quote(l.Input))
	o.set("output-format", "front.outputFormat", quote(l.Output))
	if l.Prompted {
		o.set("", "front.prompt", quote(l.Prompt))
	}
	o.prompts()
	o.tools()
	o.permissions()
	o.session()
	o.settings()
	o.servers()
	return append(o.sets, l.Sets...), o.names, errors.Join(o.errs...)
}

type overrides struct {
	line  *Line
	sets  []string
	names map[string]string
	errs  []error
}

// set gives a key its value on account of a flag, or of the prompt for "".
func (o *overrides) set(flag, key, json string) { o.put(flag, key, "=", json) }

// put is set with the operator of profile.Options.Sets.
func (o *overrides) put(flag, key, how, json string) {
	o.sets = append(o.sets, key+how+json)
	o.names[key] = "--" + flag
	if flag == "" {
		o.names[key] = "the prompt"
	}
}

func (o *overrides) fail(flag string, err error) {
	o.errs = append(o.errs, fmt.Errorf("--%s: %w", flag, err))
}

// maxFile bounds the files that flags name, in bytes.
const maxFile = 16 << 20

// read gives the content of a file that a flag names.
func read(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular(): // others could block for ever
		return "", fmt.Errorf("%s is not a regular file", name)
	case info.Size() > maxFile:
		return "", fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	data, err := os.ReadFile(name)
	return strings.TrimPrefix(string(data), "\ufeff"), err
}

// readObject gives a JSON object that stands in a value, or in a file that the
// value names.
func readObject(value string) (text, from string, err error) {
	text = strings.TrimSpace(value)
	if !strings.HasPrefix(text, "{") {
		if text, err = read(value); err != nil {
			return "", "", err
		}
		from = value + ": "
	}
	if text, err = object(text); err != nil {
		return "", "", fmt.Errorf("%s%w", from, err)
	}
	return text, from, nil
}

func (o *overrides) prompts() {
	for _, p := range []struct{ flag, key string }{
		{"system-prompt", "front.systemPrompt"}, {"append-system-prompt", "front.appendSystemPrompt"},
	} {
		if o.line.given(p.flag) {
			o.set(p.flag, p.key, quote(o.line.last(p.flag)))
		}
		if file := p.flag + "-file"; o.line.given(file) {
			text, err := read(o.line.last(file))
			if err != nil {
				o.fail(file, err)
				continue
			}
			o.set(file, p.key, quote(text))
		}
	}
	if o.line.last("thinking") == "disabled" {
		o.set("thinking", "front.maxThinkingTokens", "0")
	}
}

// tools restricts the built-in tools. default means all of them, as without the
// flag.
func (o *overrides) tools() {
	if !o.line.given("tools") {
		return
	}
	names := splitAll(o.line.values["tools"], true)
	if !slices.Contains(names, "default") {
		o.set("tools", "front.tools", list(names))
	}
}

func (o *overrides) permissions() {
	switch mode := o.line.last("permission-mode"); {
	case o.line.on("dangerously-skip-permissions"):
		o.set("dangerously-skip-permissions", "permissions.mode", quote(modeBypass))
	case mode == modeAuto:
		o.set("permission-mode", "permissions.mode", quote("default"))
	case mode != "":
		o.set("permission-mode", "permissions.mode", quote(mode))
	}
	if tool := o.line.last("permission-prompt-tool"); tool != "" && tool != promptStdio {
		o.set("permission-prompt-tool", "permissions.promptTool", quote(tool))
	}
	if o.line.last("permission-prompts") == "none" {
		o.set("permission-prompts", "permissions.approvals", quote("never"))
	}
	if !o.line.given("add-dir") {
		return
	}
	var folders []string
	for _, folder := range o.line.values["add-dir"] {
		abs, err := filepath.Abs(folder)
		if info, statErr := os.Stat(folder); err == nil && statErr != nil {
			err = statErr
		} else if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no folder", folder)
		}
		if err != nil {
			o.fail("add-dir", err)
			continue
		}
		folders = append(folders, abs)
	}
	o.put("add-dir", "permissions.additionalDirectories", "+=", list(folders))
}

func (o *overrides) session() {
	if o.line.given("resume") {
		o.set("resume", "front.resume", quote(o.line.last("resume")))
	}
	if at := o.line.last("resume-session-at"); at != "" {
		o.set("resume-session-at", "front.resumeAt", quote(at))
	}
	if o.line.on("disable-slash-commands") {
		o.set("disable-slash-commands", "commands.enabled", "false")
		o.set("disable-slash-commands", "skills.enabled", "false")
	}
}

// settings are those of --settings, and above them those of --managed-settings:
// the layer of flags is the highest there is.
func (o *overrides) settings() {
	if o.line.given("setting-sources") {
		o.set("setting-sources", "settings.sources", list(sources(o.line.last("setting-sources"))))
	}
	var flag string
	var merged map[string]any
	for _, name := range []string{"settings", "managed-settings"} {
		if strings.TrimSpace(o.line.last(name)) == "" {
			continue
		}
		text, _, err := readObject(o.line.last(name))
		if err != nil {
			o.fail(name, err)
			continue
		}
		var layer map[string]any
		if err := wirejson.Unmarshal([]byte(text), &layer); err != nil {
			o.fail(name, err)
			continue
		}
		flag, merged = name, overlay(merged, layer)
	}
	if flag == "" {
		return
	}
	text, err := wirejson.Marshal(merged)
	if err != nil {
		o.fail(flag, err)
		return
	}
	o.set(flag, "settings.flags", string(text))
}

// overlay lays settings on top of others: lists add up, everything else is
// replaced (spec stream-json 7.4).
func overlay(base, over map[string]any) map[string]any {
	merged := maps.Clone(base)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range over {
		switch below := merged[key].(type) {
		case map[string]any:
			if above, ok := value.(map[string]any); ok {
				value = overlay(below, above)
			}
		case []any:
			if above, ok := value.([]any); ok {
				value = append(slices.Clone(below), above...)
			}
		}
		merged[key] = value
	}
	return merged
}

// typeSDK marks a server that the client hosts.
const typeSDK = "sdk"

// servers reads the MCP servers of the command line. Of several of one name the
// last counts, and one that the client hosts before all others (spec stream-json
// 8.1).
func (o *overrides) servers() {
	if o.line.on("strict-mcp-config") {
		o.set("strict-mcp-config", "mcp.settings", "false")
	}
	hosted, configured := map[string]bool{}, map[string]mcp.Server{}
	for _, value := range o.line.values["mcp-config"] {
		text, from, err := readObject(value)
		if err != nil {
			o.fail("mcp-config", err)
			continue
		}
		var config struct {
			Servers map[string]settings.MCPServer `json:"mcpServers"`
		}
		if err := wirejson.Unmarshal([]byte(text), &config); err != nil {
			o.fail("mcp-config", fmt.Errorf("%s%w", from, err))
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(config.Servers)) {
			s := config.Servers[name]
			switch {
			case s.Type == typeSDK:
				hosted[name] = true
			case s.Command == "" && s.URL == "":
				o.fail("mcp-config", fmt.Errorf("%sserver %q has neither a command nor a url", from, name))
			default:
				configured[name] = mcp.FromSettings(s)
			}
		}
	}
	for name := range hosted {
		delete(configured, name)
	}
	if len(hosted) > 0 {
		o.set("mcp-config", "front.sdkServers", list(slices.Sorted(maps.Keys(hosted))))
	}
	if len(configured) == 0 {
		return
	}
	text, err := wirejson.Marshal(configured)
	if err != nil {
		o.fail("mcp-config", err)
		return
	}
	o.set("mcp-config", "mcp.servers", string(text))
}
