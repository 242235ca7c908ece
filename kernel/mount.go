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
	r := row{entry: &e, index: len(k.opts.Profile.Entries), plugin: p, config: config}
	live, err := k.mountAs(ctx, r, k.owner.ChildAt("row "+e.ID, r.index))
	if err != nil {
		return nil, err
	}
	return live.owner, nil
}

// mountLater makes a load task of an optional row (decision R10).
func (k *Kernel) mountLater(r row) {
	k.ready.Go("row "+r.entry.ID, false, func(ctx context.Context) error {
		live, err := k.mountAs(ctx, r, k.owner.ChildAt("row "+r.entry.ID, r.index))
		if err != nil {
			return err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.live[r.entry.ID] = live
		return nil
	})
}

// mountAs starts a row whose registrations hang on o; after an error o is
// closed.
func (k *Kernel) mountAs(ctx context.Context, r row, o *Owner) (*liveRow, error) {
	e := r.entry
	refused := func(err error) (*liveRow, error) { return nil, errors.Join(err, o.Close(ctx)) }
	if taken := append(seamNames(r.plugin.provides), r.plugin.claims...); len(taken) > 0 {
		return refused(rowError(e, "", "plugin %s cannot be mounted at run time: there is one %s in a profile", r.plugin.Name, strings.Join(taken, ", ")))
	}
	select {
	case <-k.composed:
	case <-ctx.Done():
		return refused(fmt.Errorf("mount row %s: %w", e.ID, context.Cause(ctx)))
	}
	var h hooks
	opts := k.common(&h)
	for _, t := range append(r.plugin.needs, r.plugin.wants...) {
		if ptr, ok := k.seams[t]; ok {
			opts = append(opts, supply(t, ptr.Elem()))
		}
	}
	live := &liveRow{row: r, owner: o}
	app := fx.New(append(opts, k.moduleOf(live))...)
	if err := app.Err(); err != nil {
		return refused(rowError(e, "", "%v", rootCause(err)))
	}
	if err := h.during(ctx, app.Start); err != nil {
		return refused(rowError(e, "", "start: %v", rootCause(err)))
	}
	stop := func(ctx context.Context) error { return h.during(ctx, app.Stop) }
	if err := o.OnClose("stop hooks", stop); err != nil {
		return nil, errors.Join(rowError(e, "", "%v", err), stop(ctx))
	}
	return live, nil
}

// supply provides a value under a type that is known only at run time.
func supply(t reflect.Type, v reflect.Value) fx.Option {
	constructor := reflect.MakeFunc(reflect.FuncOf(nil, []reflect.Type{t}, false), func([]reflect.Value) []reflect.Value {
		return []reflect.Value{v}
	})
	return fx.Provide(constructor.Interface())
}
