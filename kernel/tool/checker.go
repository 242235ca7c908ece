package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"dsh/sdkproto/wirejson"
)

// Checker validates objects against one JSON Schema. It may be used from any
// goroutine.
//
// The library behind it is the one that already makes the schemas. The other
// candidate, which reports all errors by itself, compiles every meta-schema when
// the process starts and costs each start 9 ms.
type Checker struct {
	schema *jsonschema.Schema
	whole  *jsonschema.Resolved
}

// Drafts by which values are checked. The library would take a schema of another
// one, and then refuse every value.
const (
	draft7      = "http://json-schema.org/draft-07/schema#"
	draft202012 = "https://json-schema.org/draft/2020-12/schema"
)

// draftOf gives the draft for the $schema of a schema. Draft 7 only adds to draft
// 6.
func draftOf(named string) (string, error) {
	switch strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(named, "http://"), "https://"), "#") {
	case "":
		return "", nil
	case "json-schema.org/draft-06/schema", "json-schema.org/draft-07/schema":
		return draft7, nil
	case "json-schema.org/draft/2020-12/schema":
		return draft202012, nil
	}
	return "", fmt.Errorf("$schema is %q; use draft-07 or draft 2020-12", named)
}

// NewChecker compiles a schema of draft 6, 7 or 2020-12.
func NewChecker(schema json.RawMessage) (*Checker, error) {
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(schema, s); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	var err error
	if s.Schema, err = draftOf(s.Schema); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	whole, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	return &Checker{schema: s, whole: whole}, nil
}

// Problem is one thing wrong with a value.
type Problem struct {
	// Pointer is the RFC 6901 pointer of what is wrong, or missing; "" for the
	// whole.
	Pointer string
	// Msg says what is wrong.
	Msg string
}

// Check gives what is wrong with the members of an object in one error, so that
// a model can mend it in one go.
func (c *Checker) Check(value json.RawMessage) error {
	problems, err := c.Problems(value)
	if err != nil || len(problems) == 0 {
		return err
	}
	texts := make([]string, len(problems))
	for i, p := range problems {
		if texts[i] = p.Msg; p.Pointer != "" {
			texts[i] = p.Pointer + ": " + p.Msg
		}
	}
	return errors.New(strings.Join(texts, "; "))
}

// Problems lists what is wrong with a value, each with its place: as deep down
// as the schema's parts can be checked by themselves. The error says that the
// value is no JSON.
func (c *Checker) Problems(value json.RawMessage) ([]Problem, error) {
	var v any
	if err := wirejson.Unmarshal(value, &v); err != nil {
		return nil, err
	}
	err := c.whole.Validate(v)
	if err == nil {
		return nil, nil
	}
	problems := find(c.schema, v, "")
	if len(problems) == 0 {
		problems = []Problem{{"", err.Error()}}
	}
	return problems, nil
}

// find does the work of Problems for a part of the value.
func find(s *jsonschema.Schema, value any, at string) []Problem {
	alone, err := s.CloneSchemas().Resolve(nil)
	if err != nil {
		return nil // it refers to other parts of the whole
	}
	err = alone.Validate(value)
	if err == nil {
		return nil
	}
	var problems []Problem
	switch v := value.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				problems = append(problems, Problem{at + "/" + name, "missing; it is required"})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if member, ok := s.Properties[name]; ok {
				problems = append(problems, find(member, v[name], at+"/"+name)...)
			} else if extra := s.AdditionalProperties; extra != nil && extra.Not != nil {
				known := slices.Sorted(maps.Keys(s.Properties))
				problems = append(problems, Problem{at + "/" + name, "unknown; known members: " + strings.Join(known, ", ")})
			}
		}
	case []any:
		if s.Items != nil {
			for i, item := range v {
				problems = append(problems, find(s.Items, item, fmt.Sprintf("%s/%d", at, i))...)
			}
		}
	}
	if len(problems) == 0 {
		problems = []Problem{{at, trail().ReplaceAllString(err.Error(), "")}}
	}
	return problems
}

// trail is the list of schema places that the library puts in front.
var trail = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:validating [^:]*: )+`) })
