package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"dsh/sdkproto/wirejson"
)

// Typed makes a Tool from a function over a parameter struct: the schema comes
// from the struct (SchemaFor), and a call reaches the function only with
// arguments that the schema accepts. spec.Parameters is filled in.
//
// The schema is made when it is first asked for: a process that only starts and
// stops, or uses few of its tools, does not pay for it. A struct that has no
// schema fails every call; tooltest finds it.
func Typed[P any](spec Spec, call func(ctx context.Context, in Invocation, p P) (Result, error)) Tool {
	schema := sync.OnceValues(SchemaFor[P])
	return &typed[P]{
		spec: spec, schema: schema, call: call,
		checker: sync.OnceValues(func() (*Checker, error) {
			s, err := schema()
			if err != nil {
				return nil, err
			}
			return NewChecker(s)
		}),
	}
}

type typed[P any] struct {
	spec    Spec // without Parameters
	schema  func() (json.RawMessage, error)
	checker func() (*Checker, error)
	call    func(context.Context, Invocation, P) (Result, error)
}

// Name spares those who only want to know it the schema.
func (t *typed[P]) Name() string { return t.spec.Name }

func (t *typed[P]) aliases() []string { return t.spec.Aliases }

func (t *typed[P]) Spec() Spec {
	spec := t.spec
	schema, err := t.schema()
	if err != nil {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	spec.Parameters = schema
	return spec
}

func (t *typed[P]) CheckArguments(arguments json.RawMessage) error {
	checker, err := t.checker()
	if err != nil {
		return err
	}
	if err := checker.Check(arguments); err != nil {
		return err
	}
	// The schema lets numbers pass that a Go integer cannot hold.
	return wirejson.Unmarshal(arguments, new(P))
}

func (t *typed[P]) Call(ctx context.Context, in Invocation) (Result, error) {
	var p P
	if err := wirejson.Unmarshal(in.Arguments, &p); err != nil {
		return Result{}, fmt.Errorf("decode arguments: %w", err)
	}
	return t.call(ctx, in, p)
}
