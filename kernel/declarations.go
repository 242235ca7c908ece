package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"dsh/kernel/stdio"
)

// CheckDeclaration compares what a plugin declares with what its module takes
// and gives, by building it alone among stubs; nothing of it is run. It is for
// tests: every plugin of a list should pass.
func CheckDeclaration(p Plugin) error {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("plugin %s: %s", p.Name, fmt.Sprintf(format, args...)))
	}
	if err := p.check(); err != nil {
		errs = append(errs, err)
	}
	if v, ok := p.defaults().(validator); ok {
		if err := v.Validate(); err != nil {
			fail("an empty row is not valid: %v", err)
		}
	}
	validate := func(seams []reflect.Type) error { return fx.ValidateApp(fx.NopLogger, p.among(seams)) }
	if err := validate(p.needs); err != nil {
		fail("takes more, or provides less, than it declares: %v", err)
	}
	for i, t := range p.needs {
		if validate(slices.Delete(slices.Clone(p.needs), i, i+1)) == nil {
			fail("declares that it needs %s, and does not", seamName(t))
		}
	}
	given := &providedTypes{module: p.Name}
	// The first module fails on purpose, so that nothing of the plugin's is run.
	_ = fx.New(fx.WithLogger(func() fxevent.Logger { return given }),
		fx.Module("stop", fx.Invoke(func() error { return errors.New("only listing") })), p.among(p.needs))
	for _, name := range given.names {
		if !slices.ContainsFunc(p.provides, func(t reflect.Type) bool { return t.String() == name }) {
			fail("provides %s without declaring it; use fx.Private or kernel.Provides", name)
		}
	}
	return errors.Join(errs...)
}

// among is the plugin's module beside stubs of the given seams.
func (p Plugin) among(seams []reflect.Type) fx.Option {
	o := NewOwner(context.Background(), "stub")
	log := slog.New(slog.DiscardHandler)
	in := Instance{ID: p.Name, Owner: o, Log: log, Ready: NewReady(o, log), Root: newRoot(o), Home: "stub"}
	if slices.Contains(p.claims, "stdio") {
		in.Stdio = &stdio.Pair{}
	}
	opts := []fx.Option{p.moduleOf(p.Name, in, p.defaults())}
	for _, t := range seams {
		opts = append(opts, supply(t, reflect.Zero(t)))
	}
	for _, t := range p.provides {
		use := reflect.MakeFunc(reflect.FuncOf([]reflect.Type{t}, nil, false), func([]reflect.Value) []reflect.Value { return nil })
		opts = append(opts, fx.Invoke(use.Interface()))
	}
	return fx.Options(opts...)
}

// providedTypes collects the public types that one module provides.
type providedTypes struct {
	module string
	names  []string
}

func (l *providedTypes) LogEvent(e fxevent.Event) {
	if p, ok := e.(*fxevent.Provided); ok && p.ModuleName == l.module && !p.Private {
		l.names = append(l.names, p.OutputTypeNames...)
	}
}
