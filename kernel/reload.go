package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"dsh/kernel/profile"
)

// liveRow is a row that runs.
type liveRow struct {
	row
	owner *Owner
	// change takes another config in place; nil when the row does not offer it.
	change func(ctx context.Context, config any, next *Next) error
}

// OnReload offers to take changes of the row's config without being replaced.
// A row that provides a seam, which others hold, can be reloaded in no other
// way. f prepares what the new config asks for and puts it on next; it must
// change nothing that is in use before next commits. An error leaves the old
// composition running. It is called by one goroutine at a time.
func OnReload[C any](in Instance, f func(ctx context.Context, c C, next *Next) error) {
	if in.live == nil {
		return // composed by hand
	}
	in.live.change = func(ctx context.Context, config any, next *Next) error { return f(ctx, *config.(*C), next) }
}

// Next is the generation that a reload prepares.
type Next struct {
	generation Generation
	mu         sync.Mutex
	made       []*Owner
	retired    []*Owner
	commits    []func()
}

// Owner makes a child of o whose registrations are live from the next
// generation on. When the reload fails it is closed.
func (n *Next) Owner(o *Owner, name string, place int) *Owner {
	c := o.child(name, append(slices.Clone(o.place), place), n.generation)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made = append(n.made, c)
	return c
}

// Retire takes what o registered out of the next generation. It is closed when
// no turn of an earlier one runs any more.
func (n *Next) Retire(o *Owner) {
	o.retired.Store(int64(n.generation))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.retired = append(n.retired, o)
}

// Commit runs f when the reload has succeeded, at the moment the next
// generation begins. f must not block.
func (n *Next) Commit(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.commits = append(n.commits, f)
}

func (n *Next) abandon(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.retired {
		o.retired.Store(0)
	}
	var errs []error
	for _, o := range slices.Backward(n.made) {
		errs = append(errs, o.Close(ctx))
	}
	return errors.Join(errs...)
}

// Reload puts another composition in the place of the one that runs: rows that
// are new or changed start, and those that are gone or changed leave when the
// turns that run have ended. It returns when the new generation has begun, and
// tells what changed; after an error the old one goes on as if nothing had
// been asked. What cannot change in a running process is an error.
func (k *Kernel) Reload(ctx context.Context, p *profile.Profile) (changed []string, err error) {
	return k.reload(ctx, p, false)
}

// reread is Instance.Reload.
func (k *Kernel) reread(ctx context.Context) (changed []string, err error) {
	p, err := k.opts.Reread(ctx)
	if err != nil {
		return nil, err
	}
	return k.reload(ctx, p, true)
}

// reload is Reload; with whole what fails to start is an error even when no row
// requires it.
func (k *Kernel) reload(ctx context.Context, p *profile.Profile, whole bool) (changed []string, err error) {
	k.reloading.Lock()
	defer k.reloading.Unlock()
	if err := k.ready.Wait(ctx); err != nil {
		return nil, fmt.Errorf("reload profile %s: the present one is not up: %w", p.Name, err)
	}
	to := &Kernel{opts: k.opts}
	to.opts.Profile = p
	rows, err := to.rows()
	if err != nil {
		return nil, fmt.Errorf("reload profile %s:\n%w", p.Name, err)
	}
	plan, err := k.plan(rows)
	if err != nil {
		return nil, fmt.Errorf("reload profile %s:\n%w", p.Name, err)
	}
	if len(plan.changed) == 0 {
		k.opts.Profile = p
		return nil, nil
	}
	next := &Next{generation: k.owner.clock.now() + 1}
	tasks := k.ready.snapshot()
	// Before anything of the new composition can start a program.
	k.credentials.add(credentialNames(p.CredentialEnv, rows))
	started, err := k.prepare(ctx, plan, next)
	if err == nil && whole {
		err = k.ready.failedSince(tasks)
	}
	if err != nil {
		k.ready.revert(tasks)
		// What failed to start may have been given no time at all.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReleaseLimit)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("reload profile %s:\n%w", p.Name, err), next.abandon(undo))
	}
	k.commit(p, plan, started, next)
	return plan.changed, nil
}

// plan is what a reload does.
type plan struct {
	leave   []*liveRow
	start   []row
	change  []rowChange
	changed []string // for people
}

type rowChange struct {
	live *liveRow
	to   row
}

// plan compares the rows with those that run and refuses what only another
// start of the process can change.
func (k *Kernel) plan(rows []row) (*plan, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	plan := &plan{}
	var errs []error
	fixed := func(r row, what string) {
		holds := append(seamNames(r.plugin.provides), r.plugin.claims...)
		errs = append(errs, rowError(r.entry, "", "the row cannot be %s while the process runs, because it holds %s; restart the process", what, strings.Join(holds, ", ")))
	}
	wanted := map[string]bool{}
	for _, r := range rows {
		id := r.entry.ID
		wanted[id] = true
		live := k.live[id]
		held := len(r.plugin.provides)+len(r.plugin.claims) > 0
		switch {
		case live == nil && held:
			fixed(r, "added")
		case live == nil:
			plan.start = append(plan.start, r)
			plan.changed = append(plan.changed, "added "+id)
		case sameRow(live.entry, r.entry) && live.plugin.stamp == r.plugin.stamp:
		case live.plugin.Name == r.plugin.Name && live.change != nil:
			plan.change = append(plan.change, rowChange{live, r})
			plan.changed = append(plan.changed, "changed "+id)
		case held || len(live.plugin.provides)+len(live.plugin.claims) > 0:
			fixed(r, "changed")
		default:
			plan.leave = append(plan.leave, live)
			plan.start = append(plan.start, r)
			plan.changed = append(plan.changed, "changed "+id)
		}
	}
	for _, live := range k.rowsInOrder() {
		if wanted[live.entry.ID] {
			continue
		}
		if len(live.plugin.provides) > 0 {
			fixed(live.row, "removed")
			continue
		}
		plan.leave = append(plan.leave, live)
		plan.changed = append(plan.changed, "removed "+live.entry.ID)
	}
	return plan, errors.Join(errs...)
}

func (k *Kernel) rowsInOrder() []*liveRow {
	rows := make([]*liveRow, 0, len(k.live))
	for _, r := range k.live {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b *liveRow) int { return a.index - b.index })
	return rows
}

// prepare starts what is new beside what runs, and waits for its load tasks.
func (k *Kernel) prepare(ctx context.Context, plan *plan, next *Next) (started []*liveRow, err error) {
	for _, live := range plan.leave {
		next.Retire(live.owner)
	}
	var mu sync.Mutex
	var errs []error
	for _, c := range plan.change {
		err := contained(func() error { return c.live.change(ctx, c.to.config, next) })
		if err != nil {
			errs = append(errs, rowError(c.to.entry, "", "%v", err))
		}
	}
	for _, r := range plan.start {
		o := next.Owner(k.owner, "row "+r.entry.ID, r.index)
		mount := func(ctx context.Context) error {
			live, err := k.mountAs(ctx, r, o)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			started = append(started, live)
			return nil
		}
		if r.optional {
			k.ready.Go("row "+r.entry.ID, false, mount)
		} else if err := mount(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	err = k.ready.Wait(ctx)
	mu.Lock()
	defer mu.Unlock()
	return started, err
}

func contained(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}

// commit begins the next generation and sees the last one out.
func (k *Kernel) commit(p *profile.Profile, plan *plan, started []*liveRow, next *Next) {
	k.mu.Lock()
	for _, live := range plan.leave {
		delete(k.live, live.entry.ID)
	}
	for _, c := range plan.change {
		c.live.row = c.to
	}
	for _, live := range started {
		k.live[live.entry.ID] = live
	}
	k.opts.Profile = p
	k.mu.Unlock()

	clock := k.owner.clock
	clock.mu.Lock()
	clock.current = next.generation
	clock.mu.Unlock()
	next.mu.Lock()
	commits, retired := next.commits, next.retired
	next.mu.Unlock()
	for _, f := range commits {
		f()
	}
	k.owner.Go(fmt.Sprintf("end of generation %d", next.generation-1), func(ctx context.Context) {
		if !clock.ended(ctx, next.generation) {
			return // the process ends, and with it all owners
		}
		for _, o := range slices.Backward(retired) {
			limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), ReleaseLimit)
			if err := o.Close(limit); err != nil {
				k.opts.Log.Warn("a row that was reloaded did not end well", "error", err)
			}
			cancel()
		}
	})
}

// ended waits until nothing runs under a generation before g; false when ctx
// ends first.
func (c *generations) ended(ctx context.Context, g Generation) bool {
	for {
		c.mu.Lock()
		busy := false
		for old := range c.running {
			busy = busy || old < g
		}
		left := c.left
		c.mu.Unlock()
		if !busy {
			return true
		}
		select {
		case <-left:
		case <-ctx.Done():
			return false
		}
	}
}

// reloadLimit bounds one reload: its load tasks have limits of their own.
const reloadLimit = 5 * time.Minute

// reloads reloads the profile each time it is asked to, until ctx ends.
func (k *Kernel) reloads(ctx context.Context, hangup, changed <-chan struct{}) {
	for {
		asked := "SIGHUP"
		select {
		case <-hangup:
		case <-changed:
			asked = "a file of the profile changed"
		case <-k.root.Quiescing():
			return
		case <-ctx.Done():
			return
		}
		limited, cancel := context.WithTimeout(ctx, reloadLimit)
		rows, err := k.reloadOnce(limited)
		cancel()
		switch {
		case err != nil:
			k.opts.Log.Error("the profile was not reloaded; what runs goes on", "because", asked, "error", err)
		case len(rows) == 0:
			k.opts.Log.Info("the profile was read again; nothing in it has changed", "because", asked)
		default:
			k.opts.Log.Info("the profile was reloaded", "because", asked, "rows", strings.Join(rows, ", "))
		}
	}
}

func (k *Kernel) reloadOnce(ctx context.Context) ([]string, error) {
	p, err := k.opts.Reload(ctx)
	if err != nil {
		return nil, err
	}
	return k.Reload(ctx, p)
}

// sameRow reports whether two entries make the same row.
func sameRow(a, b *profile.Entry) bool {
	required := func(e *profile.Entry) string {
		if e.Required == nil {
			return ""
		}
		return fmt.Sprint(*e.Required)
	}
	return a.Use == b.Use && a.UseDir == b.UseDir && a.Checksum == b.Checksum && required(a) == required(b) && bytes.Equal(a.Config, b.Config)
}
