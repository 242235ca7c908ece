package profile

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"dsh/sdkproto/wirejson"
)

// Kind is one kind of row, as Schema and Example describe it.
type Kind struct {
	// Name is what a row's `use` says; Summary is one sentence.
	Name, Summary string
	// Defaults is the config of an empty row: a struct or a pointer to one.
	Defaults any
}

// object is a JSON object of a schema; its members are encoded in the order of
// their names.
type object = map[string]any

// interpolated is the schema of a scalar that is filled in when the profile is
// loaded.
var interpolated = object{"type": "string", "pattern": `\$\{(env|file):`}

// Schema gives the JSON Schema (draft 7, which editors know best) of a profile
// file: of one that stands alone and of one that is laid on top of others. It
// knows the keys that Load and Decode know, what a row's config may hold by
// its `use`, and, by way of ids, by its id where the row says no `use`. An
// editor helps with it; it cannot see what the other layers of a profile say.
func Schema(kinds []Kind, ids map[string]string) ([]byte, error) {
	var names []any
	definitions, rules := object{"interpolated": interpolated}, []any{}
	for _, k := range kinds {
		names = append(names, k.Name)
		config, err := k.schema()
		if err != nil {
			return nil, err
		}
		definitions["config-"+k.Name] = config
		rules = append(rules, object{
			"if":   object{"required": []string{"use"}, "properties": object{"use": object{"const": k.Name}}},
			"then": object{"properties": object{"config": reference("config-" + k.Name)}},
		})
	}
	definitions["row"] = object{
		"type": []string{"object", "null"},
		"properties": object{
			"use":      orInterpolated(object{"enum": append(names, nil)}, "the plugin"),
			"enabled":  orInterpolated(object{"type": []string{"boolean", "null"}}, "false switches the row off"),
			"required": orInterpolated(object{"type": []string{"boolean", "null"}}, "false lets the profile start without the row"),
			"checksum": object{"type": []string{"string", "null"}, "description": "of an executable"},
			"config":   object{"type": []string{"object", "null"}, "description": "what the plugin lets a deployment say"},
		},
		"additionalProperties": false,
		"allOf":                rules,
	}
	rows := object{}
	for id, use := range ids {
		rows[id] = object{"allOf": []any{reference("row"), object{
			"if":   object{"type": "object", "not": object{"required": []string{"use"}}},
			"then": object{"properties": object{"config": reference("config-" + use)}},
		}}}
	}
	return wirejson.Marshal(object{
		"$schema": "http://json-schema.org/draft-07/schema#",
		"title":   "dsh profile",
		"type":    "object",
		"properties": object{
			"summary": object{"type": "string", "description": "one line about the profile"},
			"extends": object{"type": "string", "description": "the profile below this one: a name, or the path of a file"},
			"env": object{"type": []string{"object", "null"}, "description": "environment variables that override a value: NAME: row-id.key",
				"additionalProperties": object{"type": []string{"string", "null"}}},
			"settings": object{"type": []string{"object", "null"}, "additionalProperties": false, "properties": object{
				"logLevel": orInterpolated(object{"enum": []any{"debug", "info", "warn", "error", nil}}, "what is logged on standard error"),
				"reload":   orInterpolated(object{"enum": []any{ReloadOnSignal, ReloadOnChange, nil}}, "when a running profile is read again: on SIGHUP, or also when one of its files changes"),
				"home":     object{"type": []string{"string", "null"}, "description": "the data folder"},
			}},
			"plugins": object{"type": []string{"object", "null"}, "description": "the rows by their ids; order counts", "properties": rows,
				"propertyNames": object{"pattern": `^[a-z][a-z0-9-]*$`}, "additionalProperties": reference("row")},
		},
		"additionalProperties": false,
		"definitions":          definitions,
	})
}

func reference(definition string) object { return object{"$ref": "#/definitions/" + definition} }

// orInterpolated is the schema of a scalar of a type or an interpolation.
func orInterpolated(of object, description string) object {
	return object{"anyOf": []any{of, reference("interpolated")}, "description": description}
}

// defaults gives the config of an empty row as a tree.
func (k Kind) defaults() (*value, error) {
	data, err := wirejson.Marshal(k.Defaults)
	if err != nil {
		return nil, fmt.Errorf("defaults of plugin %s: %w", k.Name, err)
	}
	v, err := fromJSON(data, Position{})
	if err != nil {
		return nil, fmt.Errorf("defaults of plugin %s: %w", k.Name, err)
	}
	return v, nil
}

func (k Kind) schema() (object, error) {
	v, err := k.defaults()
	if err != nil {
		return nil, err
	}
	s := schemaOf(reflect.TypeOf(k.Defaults), v, nil)
	s["description"] = k.Summary
	return s, nil
}

// schemaOf describes what Decode takes for a type: null, which removes a key,
// and interpolations included. preset is the default, nil when there is none;
// within are the types around this one.
func schemaOf(t reflect.Type, preset *value, within []reflect.Type) object {
	s := object{}
	if preset != nil && preset.kind != mapping && preset.kind != null {
		s["default"] = json.RawMessage(preset.appendJSON(nil))
	}
	t = concrete(t)
	if t == nil || slices.Contains(within, t) {
		return s
	}
	within = append(slices.Clone(within), t)
	typed := func(types ...string) {
		s["anyOf"] = []any{object{"type": append(types, "null")}, reference("interpolated")}
	}
	switch word := typeWord(t); word {
	case "text":
		// A number or boolean arrives as it was spelled (case B81).
		s["type"] = []string{"string", "number", "boolean", "null"}
	case "true or false":
		typed("boolean")
	case "whole number":
		typed("integer")
	case "number":
		typed("number")
	case "list":
		s["type"] = []string{"array", "null"}
		s["items"] = schemaOf(t.Elem(), nil, within)
	case "mapping":
		s["type"] = []string{"object", "null"}
		if t.Kind() == reflect.Map {
			s["additionalProperties"] = schemaOf(t.Elem(), nil, within)
			break
		}
		properties, words := object{}, enums(t)
		for name, member := range fields(t) {
			p := schemaOf(member, preset.get(name), within)
			if len(words[name]) > 0 {
				delete(p, "type")
				p["anyOf"] = []any{object{"enum": append(words[name], nil)}, reference("interpolated")}
			}
			properties[name] = p
		}
		s["properties"], s["additionalProperties"] = properties, false
	}
	return s
}

// typeWord names what a type takes in the words of the error messages; "" for a
// type that decodes itself.
func typeWord(t reflect.Type) string {
	if t = concrete(t); t == nil {
		return ""
	}
	switch k := t.Kind(); {
	case k == reflect.String || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "text"
	case k == reflect.Bool:
		return "true or false"
	case k >= reflect.Int && k <= reflect.Uint64:
		return "whole number"
	case k == reflect.Float32 || k == reflect.Float64:
		return "number"
	case k == reflect.Slice || k == reflect.Array:
		return "list"
	case k == reflect.Map || k == reflect.Struct:
		return "mapping"
	}
	return ""
}

// enums gives the words that the enum tags of a struct's members allow, by the
// names of the members.
func enums(t reflect.Type) map[string][]any {
	all := map[string][]any{}
	if t.Kind() != reflect.Struct {
		return all
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag := f.Tag.Get("enum"); tag != "" {
			for word := range strings.SplitSeq(tag, ",") {
				all[name] = append(all[name], word)
			}
		}
	}
	return all
}

// Example writes a row of this kind as YAML, every key with its default and,
// as a comment, what it takes.
func (k Kind) Example(w io.Writer, id string) error {
	config, err := k.defaults()
	if err != nil {
		return err
	}
	row := newMapping(Position{})
	row.set("use", &value{kind: text, text: k.Name})
	if config.kind == mapping && len(config.keys) > 0 {
		row.set("config", explained(config, reflect.TypeOf(k.Defaults), nil))
	}
	var b bytes.Buffer
	dumpMember(&b, "", quoteYAML(id)+":", row)
	_, err = w.Write(b.Bytes())
	return err
}

// explained gives a tree whose comments say what each value takes.
func explained(v *value, t reflect.Type, words []any) *value {
	out := *v
	note := typeWord(t)
	for i, word := range words {
		note += []string{": ", ", "}[min(i, 1)] + fmt.Sprint(word)
	}
	if note != "mapping" || v.kind != mapping {
		out.pos = Position{File: note}
	}
	t = concrete(t)
	if v.kind != mapping || t == nil || t.Kind() != reflect.Struct {
		return &out
	}
	out.keys, out.members = nil, map[string]*value{}
	known, allowed := fields(t), enums(t)
	for _, key := range v.keys {
		out.set(key, explained(v.members[key], known[key], allowed[key]))
	}
	return &out
}
