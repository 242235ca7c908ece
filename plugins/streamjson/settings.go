package streamjson

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/llm"
	"dsh/kernel/settings"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// change makes a change of what turns are like, now or, while a turn runs, when it
// ends; the answer says which (decision D3 of spec stream-json 0.4, S061).
func (s *Server) change(do func() error) (any, error) {
	s.settling.Lock()
	defer s.settling.Unlock()
	waits := false
	s.with(func() {
		if waits = s.running; waits {
			s.deferred = append(s.deferred, do)
		}
	})
	if waits {
		return map[string]string{"applies": "after_turn"}, nil
	}
	return struct{}{}, do()
}

// rest runs f, which may end a turn, under the lock; then it makes the changes that
// have waited for that, in order, and reports whether there were any. A change that
// comes later finds them made.
func (s *Server) rest(f func()) (changed bool) {
	s.settling.Lock()
	defer s.settling.Unlock()
	var due []func() error
	s.with(func() {
		f()
		if !s.running {
			due, s.deferred = s.deferred, nil
		}
	})
	for _, do := range due {
		s.contain("a change that has waited for the end of a turn", func() {
			if err := do(); err != nil {
				s.Log.Warn("a change that has waited for the end of a turn was not made", "error", err)
			}
		})
	}
	return len(due) > 0
}

// resolve gives the route of a model that a client names.
func (s *Server) resolve(name string) (llm.Route, error) {
	if s.Config.StrictModels && !slices.ContainsFunc(s.Models.Models(s.Config.APIFormat), func(m llm.Model) bool { return m.Value == name || m.Route.Model == name }) {
		return llm.Route{}, fmt.Errorf("model %q is not one of those that this profile lists", clip(name))
	}
	to, err := s.Models.Resolve(s.Config.APIFormat, name)
	if err != nil {
		return to, err
	}
	s.mu.Lock()
	open := s.agent != nil
	to.ReasoningEffort = s.route.ReasoningEffort
	s.mu.Unlock()
	if open { // else its first turn says what is wrong
		_, err = s.Agents.CheckRoute(s.fit(to))
	}
	return to, err
}

// model is the change to another model; effort stays as it is then.
func (s *Server) model(to llm.Route) func() error {
	return func() error {
		return s.reroute(func(now llm.Route) llm.Route { to.ReasoningEffort = now.ReasoningEffort; return to })
	}
}

// getSettings is spec stream-json 4.9: what the settings say, and what is in force,
// which a change that waits for the end of a turn is not (D5).
func (s *Server) getSettings(context.Context, *request) (any, error) {
	s.mu.Lock()
	route := s.route
	s.mu.Unlock()
	answer := streamjson.Settings{
		Effective: s.effective(), Sources: s.sources(),
		Applied: streamjson.AppliedSettings{Model: s.modelID(route), Effort: tableEffort(route.ReasoningEffort)},
	}
	if resolved, err := s.Agents.CheckRoute(s.fit(route)); err == nil {
		answer.Applied.EffectiveEffort = resolved.ReasoningEffort
	}
	return answer, nil
}

// tableEffort is a word for effort in those of the table of spec stream-json 4.7,
// nil for the model's own: xhigh is told as the next one up (S049).
func tableEffort(word string) *string {
	switch word {
	case "":
		return nil
	case "xhigh":
		word = "max"
	}
	return &word
}

// Keys of apply_flag_settings.
const (
	keyModel       = "model"
	keyEffort      = "effortLevel"
	keyPermissions = "permissions"
	keyMode        = "defaultMode"
)

// flagChange is what an apply_flag_settings asks for: nil is nothing, null takes the
// key away.
type flagChange struct {
	model, effort, mode json.RawMessage
	// to is the route of model, when that is a name.
	to llm.Route
}

// applyFlagSettings is spec stream-json 4.8 (S046): all or nothing.
func (s *Server) applyFlagSettings(_ context.Context, r *request) (any, error) {
	in, err := fields[struct {
		Settings json.RawMessage `json:"settings"`
	}](r)
	if err != nil {
		return nil, err
	}
	flags, ok := s.Settings.(settings.Flags)
	if !ok {
		return nil, errors.New("this profile reads no settings, so none can be applied: enable a row of settings")
	}
	c, err := s.readFlagChange(in.Settings)
	if err != nil {
		return nil, err
	}
	if c.mode != nil {
		r.after = func() { s.tellMode(s.work) }
	}
	return s.change(func() error { return s.setFlags(flags, c) })
}

// readFlagChange checks everything before anything is changed.
func (s *Server) readFlagChange(raw json.RawMessage) (c flagChange, err error) {
	var all, permissions map[string]json.RawMessage
	if kindOf(raw) != '{' || wirejson.Unmarshal(raw, &all) != nil {
		return c, errors.New("settings must be an object")
	}
	unsupported := func(key string) error {
		return fmt.Errorf("unsupported setting %q; apply_flag_settings takes %s, %s and %s.%s", clip(key), keyModel, keyEffort, keyPermissions, keyMode)
	}
	for _, key := range sortedKeys(all) {
		switch value := all[key]; key {
		case keyModel:
			c.model = value
		case keyEffort:
			c.effort = value
		case keyPermissions:
			if kindOf(value) != '{' || wirejson.Unmarshal(value, &permissions) != nil {
				return c, fmt.Errorf("%s must be an object with %s", keyPermissions, keyMode)
			}
			for _, inner := range sortedKeys(permissions) {
				if inner != keyMode {
					return c, unsupported(keyPermissions + "." + inner)
				}
				c.mode = permissions[inner]
			}
		default:
			return c, unsupported(key)
		}
	}
	if name, ok := text(c.model); ok && name != "" {
		if c.to, err = s.resolve(name); err != nil {
			return c, err
		}
	} else if !isUnset(c.model) {
		return c, fmt.Errorf("%s must be a non-empty string or null", keyModel)
	}
	if word, _ := text(c.effort); !isUnset(c.effort) && !slices.Contains(agent.Efforts(), word) {
		return c, fmt.Errorf("%s must be one of %s, or null", keyEffort, strings.Join(agent.Efforts(), ", "))
	}
	return c, s.checkMode(c.mode)
}

// checkMode says what is wrong with a mode that settings name.
func (s *Server) checkMode(raw json.RawMessage) error {
	mode, _ := text(raw)
	switch {
	case raw == nil:
		return nil
	case s.Policy == nil:
		return errors.New("this profile has no permission rules, so no mode can be set")
	case string(raw) == "null":
		return nil
	case !slices.Contains(modes(), plainMode(mode)):
		return fmt.Errorf("%s.%s must be one of %s, or null", keyPermissions, keyMode, strings.Join(modes(), ", "))
	}
	if steady, ok := s.Policy.(approval.Steady); ok {
		return steady.CheckMode(s.cwd, plainMode(mode))
	}
	return nil
}

// plainMode gives the name of a mode that has two.
func plainMode(mode string) string {
	if mode == "manual" {
		return modes()[0]
	}
	return mode
}

// setFlags changes the layer above the files, and what is in force with it. A key
// that is taken away leaves what the other layers and the launch say.
func (s *Server) setFlags(flags settings.Flags, c flagChange) error {
	before := s.flagLayer()
	after, err := c.over(before)
	if err != nil {
		return err
	}
	if err := flags.SetFlags(after); err != nil {
		return err
	}
	undo := func(err error) error { return errors.Join(err, flags.SetFlags(before)) }
	id := s.sessionID()
	mode, old := "", ""
	if c.mode != nil {
		old = s.Policy.Mode(id, s.cwd)
		if mode, _ = text(c.mode); mode == "" {
			mode = s.Policy.Mode("", s.cwd) // what holds for a session that was told nothing
		}
		if err := s.Policy.SetMode(id, s.cwd, plainMode(mode)); err != nil {
			return undo(err)
		}
	}
	if err := s.refit(c); err != nil {
		if c.mode != nil {
			err = errors.Join(err, s.Policy.SetMode(id, s.cwd, old))
		}
		return undo(err)
	}
	return nil
}

// over lays a change over the layer that it is for.
func (c *flagChange) over(layer json.RawMessage) (json.RawMessage, error) {
	all, permissions := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if len(layer) > 0 {
		if err := wirejson.Unmarshal(layer, &all); err != nil {
			return nil, err
		}
	}
	if raw := all[keyPermissions]; len(raw) > 0 {
		if err := wirejson.Unmarshal(raw, &permissions); err != nil {
			return nil, err
		}
	}
	set := func(in map[string]json.RawMessage, key string, value json.RawMessage) {
		switch {
		case value == nil:
		case string(value) == "null":
			delete(in, key)
		default:
			in[key] = value
		}
	}
	set(all, keyModel, c.model)
	set(all, keyEffort, c.effort)
	set(permissions, keyMode, c.mode)
	if delete(all, keyPermissions); len(permissions) > 0 {
		all[keyPermissions] = rawOf(permissions)
	}
	return wirejson.Marshal(all)
}

// refit has the turns to come answered as a change of the settings says.
func (s *Server) refit(c flagChange) error {
	if c.model == nil && c.effort == nil {
		return nil
	}
	launch, err := s.launchRoute()
	if err != nil {
		return err
	}
	s.mu.Lock()
	launch = s.mainRoute(s.asked.agent, launch)
	s.mu.Unlock()
	err = s.reroute(func(now llm.Route) llm.Route {
		to := now
		if c.model != nil {
			if to = c.to; string(c.model) == "null" {
				to = launch
			}
			to.ReasoningEffort = now.ReasoningEffort
		}
		if c.effort != nil {
			word, _ := text(c.effort)
			to.ReasoningEffort = cmp.Or(word, launch.ReasoningEffort)
		}
		return to
	})
	if err == nil {
		s.with(func() { s.launch = launch })
	}
	return err
}

// deliver takes the settings that a handshake brings: they are laid over the layer
// above the files, as if the launch had named them (spec stream-json 1.3, 4.1).
func (s *Server) deliver(raw json.RawMessage) (done bool, err error) {
	if isUnset(raw) {
		return true, nil
	}
	if text, ok := text(raw); ok {
		raw = json.RawMessage(strings.TrimSpace(text))
	}
	var brought, old map[string]json.RawMessage
	if kindOf(raw) != '{' || wirejson.Unmarshal(raw, &brought) != nil {
		return false, errors.New("invalid field settings: it must be an object, or the JSON text of one")
	}
	flags, ok := s.Settings.(settings.Flags)
	if !ok {
		return false, nil
	}
	before := s.flagLayer()
	if len(before) > 0 {
		if err := wirejson.Unmarshal(before, &old); err != nil {
			return false, err
		}
	}
	if err := flags.SetFlags(rawOf(merge(old, brought))); err != nil {
		return false, fmt.Errorf("invalid field settings: %w", err)
	}
	s.setVariables()
	launch, err := s.launchRoute()
	if err != nil {
		return false, errors.Join(err, flags.SetFlags(before))
	}
	// A model that was set since the start stays.
	s.with(func() {
		if s.agent == nil && s.route == s.launch {
			s.route = launch
		}
		s.launch = launch
	})
	return true, nil
}
