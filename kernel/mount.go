package kernel

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.uber.org/fx"

	"dsh/kernel/profile"
)

// Mounter starts rows at run time.
type Mounter interface {
	// Mount starts one more row beside those of the profile and returns its owner,
	// whose Close takes it back. The row sees the profile's seams; the profile
	// sees the row only through registries, so a plugin that provides a seam or
	// claims something cannot be mounted.
	Mount(ctx context.Context, e profile.Entry) (*Owner, error)
}

var _ Mounter = (*Kernel)(nil)

// Mount implements Mounter.
func (k *Kernel) Mount(ctx context.Context, e profile.Entry) (*Owner, error) {
	p, err := k.plugin(&e)
	if err != nil {
		return nil, err
	}
	config, errs := p.configure(&e)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return k.mount(ctx, row{entry: &e, index: len(k.opts.Profile.Entries), plugin: p, config: config})
}

// mountLater makes a load task of an optional row (decision R10).
func (k *Kernel) mountLater(r row) {
	k.ready.Go("row "+r.entry.ID, false, func(ctx context.Context) error {
		_, err := k.mount(ctx, r)
		return err
	})
}

func (k *Kernel) mount(ctx context.Context, r row) (*Owner, error) {
	e := r.entry
	if taken := append(seamNames(r.plugin.provides), r.plugin.claims...); len(taken) > 0 {
		return nil, rowError(e, "", "plugin %s cannot be mounted at run time: there is one %s in a profile", r.plugin.Name, strings.Join(taken, ", "))
	}
	select {
	case <-k.composed:
	case <-ctx.Done():
		return nil, fmt.Errorf("mount row %s: %w", e.ID, context.Cause(ctx))
	}
	o := k.owner.ChildAt("row "+e.ID, r.index)
	var h hooks
	opts := k.common(&h)
	for _, t := range append(r.plugin.needs, r.plugin.wants...) {
		if ptr, ok := k.seams[t]; ok {
			opts = append(opts, supply(t, ptr.Elem()))
		}
	}
	app := fx.New(append(opts, k.moduleOf(r, o))...)
	if err := app.Err(); err != nil {
		return nil, errors.Join(rowError(e, "", "%v", rootCause(err)), o.Close(ctx))
	}
	if err := h.during(ctx, app.Start); err != nil {
		return nil, errors.Join(rowError(e, "", "start: %v", rootCause(err)), o.Close(ctx))
	}
	stop := func(ctx context.Context) error { return h.during(ctx, app.Stop) }
	if err := o.OnClose("stop hooks", stop); err != nil {
		return nil, errors.Join(rowError(e, "", "%v", err), stop(ctx))
	}
	return o, nil
}

// supply provides a value under a type that is known only at run time.
func supply(t reflect.Type, v reflect.Value) fx.Option {
	constructor := reflect.MakeFunc(reflect.FuncOf(nil, []reflect.Type{t}, false), func([]reflect.Value) []reflect.Value {
		return []reflect.Value{v}
	})
	return fx.Provide(constructor.Interface())
}
