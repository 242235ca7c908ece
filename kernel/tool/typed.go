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
func Typed[P any](spec Spec, call func(ctx context.Context, in Invocation, p P) (Result, error)) (Tool, error) {
	schema, err := SchemaFor[P]()
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", spec.Name, err)
	}
	spec.Parameters = schema
	// Compiled at the first call: most processes use few of their tools.
	checker := sync.OnceValues(func() (*Checker, error) { return NewChecker(schema) })
	return &typed[P]{spec, checker, call}, nil
}

type typed[P any] struct {
	spec    Spec
	checker func() (*Checker, error)
	call    func(context.Context, Invocation, P) (Result, error)
}

func (t *typed[P]) Spec() Spec { return t.spec }

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
