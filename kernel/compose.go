package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/dig"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"dsh/kernel/profile"
	"dsh/kernel/stdio"
)

// Options say what to compose.
type Options struct {
	// Plugins are all that a row may use.
	Plugins []Plugin
	// External makes the plugin of a row whose `use` names none of them: an
	// executable. Its error is ErrNoPlugin for a name that means nothing to it
	// either. nil knows no executables.
	External func(profile.Entry) (Plugin, error)
	Profile  *profile.Profile
	// Stdio goes to the row that claims it; nil when there is none to give.
	Stdio *stdio.Pair
	Log   *slog.Logger
	// Reload loads the profile anew, for a reload of the running composition; nil
	// makes SIGHUP end the process like SIGTERM.
	Reload func(context.Context) (*profile.Profile, error)
	// Reread loads the profile anew for rows that ask for a reload (Instance.Reload);
	// nil lets none.
	Reread func(context.Context) (*profile.Profile, error)
	// Changed asks for a reload as SIGHUP does; it may be nil.
	Changed <-chan struct{}
	// StartLimit bounds the start hooks of all rows together; 0 is 15 s.
	StartLimit time.Duration
}

// Kernel is one composed profile.
type Kernel struct {
	opts  Options
	owner *Owner
	root  *Root
	ready *Ready
	app   *fx.App
	hooks hooks
	// seams holds a pointer to each provided value, for rows mounted later.
	seams map[reflect.Type]reflect.Value
	// opened keeps the barrier shut until the start hooks have run (decision D6).
	opened func()
	// composed is closed when seams is filled.
	composed chan struct{}
	// claimed is what the rows of the profile claim.
	claimed map[string]bool
	// credentials are the variables that the profile or a plugin's defaults name.
	credentials *CredentialEnv
	// reloading is held by the one reload that runs.
	reloading sync.Mutex

	mu sync.Mutex
	// live are the rows that run, by id.
	live map[string]*liveRow
}

// row is an entry with its plugin and config.
type row struct {
	entry  *profile.Entry
	index  int
	plugin Plugin
	config any
	// optional rows are mounted by a load task; their failure is a state.
	optional bool
}

// Compose checks a profile against the plugins and builds it; nothing is
// started. All that is wrong is in one error, each line with file, line and row.
func Compose(ctx context.Context, opts Options) (*Kernel, error) {
	k := &Kernel{opts: opts, seams: map[reflect.Type]reflect.Value{}, composed: make(chan struct{}), claimed: map[string]bool{}, live: map[string]*liveRow{}}
	if k.opts.Log == nil {
		k.opts.Log = slog.New(slog.DiscardHandler)
	}
	if k.opts.StartLimit == 0 {
		k.opts.StartLimit = 15 * time.Second
	}
	rows, err := k.rows()
	if err != nil {
		return nil, err
	}
	k.owner = NewOwner(ctx, "process")
	k.root = newRoot(k.owner)
	k.ready = NewReady(k.owner, k.opts.Log)
	k.opened = k.ready.Hold("start of profile " + opts.Profile.Name)

	k.credentials = NewCredentialEnv(credentialNames(opts.Profile.CredentialEnv, rows)...)
	modules := make([]fx.Option, 0, len(rows))
	for _, r := range rows {
		if r.optional {
			k.mountLater(r)
			continue
		}
		live := &liveRow{row: r, owner: k.owner.ChildAt("row "+r.entry.ID, r.index)}
		k.live[r.entry.ID] = live
		modules = append(modules, k.moduleOf(live))
		for _, t := range r.plugin.provides {
			k.seams[t] = reflect.New(t)
		}
		for _, c := range r.plugin.claims {
			k.claimed[c] = true
		}
	}
	k.app = fx.New(append(k.common(&k.hooks), append(modules, k.populate())...)...)
	if err := k.app.Err(); err != nil {
		k.opened()
		return nil, errors.Join(fmt.Errorf("compose profile %s: %w", opts.Profile.Name, rootCause(err)), k.close())
	}
	close(k.composed)
	return k, nil
}

// ErrNoPlugin is Options.External's answer to a name it does not know.
var ErrNoPlugin = errors.New("no such plugin")

// Check reports all that is wrong with the profile without building anything.
func (o Options) Check() error {
	_, err := (&Kernel{opts: o}).rows()
	return err
}

func (k *Kernel) rows() ([]row, error) {
	var errs []error
	for _, p := range k.opts.Plugins {
		if err := p.check(); err != nil {
			errs = append(errs, err)
		}
	}
	var rows []row
	entries := k.opts.Profile.Entries
	for i := range entries {
		e := &entries[i]
		if !e.Enabled || e.Use == "" { // a row without use is the profile's own finding
			continue
		}
		r := row{entry: e, index: i}
		var err error
		if r.plugin, err = k.plugin(e); err != nil {
			errs = append(errs, err)
			continue
		}
		r.optional = r.plugin.optional
		if e.Required != nil {
			r.optional = !*e.Required
		}
		config, bad := r.plugin.configure(e)
		errs = append(errs, bad...)
		r.config = config
		rows = append(rows, r)
	}
	errs = append(errs, k.checkSeams(rows)...)
	return rows, errors.Join(errs...)
}

func (k *Kernel) plugin(e *profile.Entry) (Plugin, error) {
	names := make([]string, len(k.opts.Plugins))
	for i, p := range k.opts.Plugins {
		if p.Name == e.Use {
			return p, nil
		}
		names[i] = p.Name
	}
	if k.opts.External != nil {
		if p, err := k.opts.External(*e); !errors.Is(err, ErrNoPlugin) {
			return p, err
		}
	}
	slices.Sort(names)
	return Plugin{}, &profile.Error{Pos: e.UsePos, Path: "plugins." + e.ID + ".use", Msg: fmt.Sprintf("unknown plugin %q%s; known plugins: %s",
		e.Use, profile.DidYouMean(e.Use, names), strings.Join(names, ", "))}
}

// checkSeams explains what fx would only trace: a seam that no row provides, one
// that two rows provide, and a doubled claim.
func (k *Kernel) checkSeams(rows []row) []error {
	var errs []error
	provider := map[reflect.Type]string{}
	claimed := map[string]string{}
	for _, r := range rows {
		e := r.entry
		if r.optional && len(r.plugin.provides) > 0 {
			errs = append(errs, rowError(e, ".required", "a row that provides %s cannot be optional; remove the line",
				strings.Join(seamNames(r.plugin.provides), ", ")))
		}
		for _, t := range r.plugin.provides {
			if first, taken := provider[t]; taken {
				errs = append(errs, rowError(e, "", "rows %s and %s both provide %s; disable one of them", first, e.ID, seamName(t)))
			}
			provider[t] = e.ID
		}
		for _, c := range r.plugin.claims {
			if first, taken := claimed[c]; taken {
				errs = append(errs, rowError(e, "", "rows %s and %s both claim %s; disable one of them", first, e.ID, c))
			}
			claimed[c] = e.ID
		}
	}
	for _, r := range rows {
		for _, t := range r.plugin.needs {
			if _, ok := provider[t]; ok {
				continue
			}
			errs = append(errs, rowError(r.entry, "", "plugin %s needs a provider of %s; no enabled row of profile %s provides one (built-in providers: %s)",
				r.plugin.Name, seamName(t), k.opts.Profile.Name, k.providersOf(t)))
		}
	}
	return errs
}

func (k *Kernel) providersOf(t reflect.Type) string {
	var names []string
	for _, p := range k.opts.Plugins {
		if slices.Contains(p.provides, t) {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (k *Kernel) instance(r *liveRow) Instance {
	in := Instance{
		ID: r.entry.ID, Index: r.index, Owner: r.owner, live: r, Log: k.opts.Log.With("row", r.entry.ID),
		Ready: k.ready, Root: k.root, Mounter: k, Home: k.opts.Profile.Settings.Home,
		Profile: k.opts.Profile.Name, CredentialEnv: k.credentials,
	}
	if k.opts.Reread != nil {
		in.Reload = k.reread
	}
	if slices.Contains(r.plugin.claims, "stdio") {
		in.Stdio = k.opts.Stdio
	}
	return in
}

func (k *Kernel) moduleOf(r *liveRow) fx.Option {
	in := k.instance(r)
	return r.plugin.moduleOf(r.entry.ID, in, r.config)
}

// common are the options of every fx app: fx speaks at debug level only, and a
// panic of a constructor is an error.
func (k *Kernel) common(h *hooks) []fx.Option {
	log := k.opts.Log
	return []fx.Option{
		fx.WithLogger(func() fxevent.Logger {
			if !log.Enabled(context.Background(), slog.LevelDebug) {
				return fxevent.NopLogger
			}
			l := &fxevent.SlogLogger{Logger: log}
			l.UseLogLevel(slog.LevelDebug)
			l.UseErrorLevel(slog.LevelDebug)
			return l
		}),
		fx.RecoverFromPanics(),
		h.decorate(),
	}
}

// populate fetches the provided values out of the app.
func (k *Kernel) populate() fx.Option {
	pointers := make([]any, 0, len(k.seams))
	for _, ptr := range k.seams {
		pointers = append(pointers, ptr.Interface())
	}
	return fx.Populate(pointers...)
}

// rowError is an error about a row with its place.
func rowError(e *profile.Entry, key, format string, args ...any) error {
	return &profile.Error{Pos: e.Pos, Path: "plugins." + e.ID + key, Msg: fmt.Sprintf(format, args...)}
}

// located gives the findings of a Validate their places.
func located(e *profile.Entry, err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, one := range joined.Unwrap() {
			errs = append(errs, located(e, one)...)
		}
		return errs
	}
	var f *FieldError
	if errors.As(err, &f) {
		path := "plugins." + e.ID + ".config" + strings.ReplaceAll(f.Pointer, "/", ".")
		return []error{&profile.Error{Pos: e.Origin(f.Pointer), Path: path, Msg: f.Msg}}
	}
	return []error{rowError(e, ".config", "%v", err)}
}

// rootCause cuts fx's trace of constructors off an error, down to what a
// plugin's own function said.
func rootCause(err error) error { return dig.RootCause(err) }
