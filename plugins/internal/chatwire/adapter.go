package chatwire

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// Model is what is known of one model, as data of a deployment.
type Model struct {
	// ContextWindow is in tokens; 0 is unknown.
	ContextWindow int64 `json:"contextWindow"`
	// MaxTokens caps the output of a request that names no cap, in tokens; 0 is
	// the adapter's default.
	MaxTokens int64 `json:"maxTokens"`
	// MaxOutput is the most that one answer may hold, in tokens; 0 is unknown.
	MaxOutput int64 `json:"maxOutput"`
	// Images says that the model takes images.
	Images bool `json:"images"`
	// Efforts are the reasoning efforts the model knows; none is the adapter's
	// list.
	Efforts []string `json:"efforts"`
	// Price is absent when it is not known.
	Price *llm.Price `json:"price"`
}

// Catalog is what an adapter knows of its models.
type Catalog struct {
	// Provider is the id the adapter answers for.
	Provider string
	// Models by id. One that is not listed is passed through.
	Models map[string]Model
	// Aliases give other names of models.
	Aliases map[string]string
	// Base gives the id under which a model may be listed that is not by its own;
	// nil is none.
	Base func(id string) string
	// Window is that of a model that is not listed, in tokens; 0 is unknown.
	Window int64
	// Images says that a model that is not listed takes images.
	Images bool
	// MaxTokens caps the output of a request that names no cap; 0 sends none.
	MaxTokens int64
	// Effort is that of a request that names none; "" sends none.
	Effort string
	// Efforts are those known; none takes every word.
	Efforts []string
}

// Validate checks what is data of a deployment; its errors name keys of a config.
func (c *Catalog) Validate() error {
	errs := []error{
		kernel.AtLeast("maxTokens", c.MaxTokens, 0),
		kernel.AtLeast("contextWindow", c.Window, 0),
	}
	for _, id := range slices.Sorted(maps.Keys(c.Models)) {
		m := c.Models[id]
		switch {
		case m.ContextWindow < 0 || m.MaxTokens < 0 || m.MaxOutput < 0:
			errs = append(errs, kernel.Invalid("models", "model %s: contextWindow, maxTokens and maxOutput cannot be negative", id))
		case m.Price != nil && (m.Price.Input < 0 || m.Price.CacheRead < 0 || m.Price.CacheWrite < 0 || m.Price.Output < 0):
			errs = append(errs, kernel.Invalid("models", "model %s: a price cannot be negative", id))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Aliases)) {
		to := c.Aliases[name]
		if _, again := c.Aliases[to]; again || to == "" {
			errs = append(errs, kernel.Invalid("aliases", "alias %s must name a model, not %q", name, to))
		}
	}
	if c.Effort != "" && len(c.Efforts) > 0 && !slices.Contains(c.Efforts, c.Effort) {
		errs = append(errs, kernel.Invalid("effort", "%q is not one of %s", c.Effort, strings.Join(c.Efforts, ", ")))
	}
	return errors.Join(errs...)
}

// Resolve fills in what a route leaves open; it is llm.Adapter's Resolve.
func (c *Catalog) Resolve(r llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
	var chosen sdkproto.AdapterDefaults
	if to, ok := c.Aliases[r.Model]; ok {
		r.Model = to
	}
	m := c.model(r.Model)
	efforts := m.Efforts
	if len(efforts) == 0 {
		efforts = c.Efforts
	}
	switch {
	case r.Model == "":
		return r, chosen, llm.Info{}, refusal("name a model for provider %s", c.Provider)
	case r.MaxTokens < 0:
		return r, chosen, llm.Info{}, refusal("maxTokens %d is not a positive number", r.MaxTokens)
	case r.ReasoningEffort != "" && len(efforts) > 0 && !slices.Contains(efforts, r.ReasoningEffort):
		return r, chosen, llm.Info{}, refusal("model %s of provider %s has no reasoning effort %q; use %s", r.Model, c.Provider, r.ReasoningEffort, strings.Join(efforts, ", "))
	}
	if r.MaxTokens == 0 {
		if r.MaxTokens = m.MaxTokens; r.MaxTokens == 0 {
			r.MaxTokens = c.MaxTokens
		}
		chosen.MaxTokens = r.MaxTokens > 0
	}
	// A model with efforts of its own need not know the default one.
	if r.ReasoningEffort == "" && (len(efforts) == 0 || slices.Contains(efforts, c.Effort)) {
		r.ReasoningEffort = c.Effort
		chosen.ReasoningEffort = c.Effort != ""
	}
	return r, chosen, llm.Info{ContextWindow: m.ContextWindow, MaxOutput: m.MaxOutput, Images: m.Images, Price: m.Price}, nil
}

// model is what is known of a model by its own name.
func (c *Catalog) model(id string) Model {
	m, listed := c.Models[id]
	if !listed && c.Base != nil {
		m, listed = c.Models[c.Base(id)]
	}
	if !listed {
		m.ContextWindow, m.Images = c.Window, c.Images
	}
	return m
}

func refusal(format string, args ...any) error {
	return &llm.Error{Code: llm.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// Adapter is an llm.Adapter over one endpoint.
type Adapter struct {
	Catalog *Catalog
	Client  *Client
}

var _ llm.Adapter = (*Adapter)(nil)

// Resolve implements llm.Adapter.
func (a *Adapter) Resolve(r llm.Route) (llm.Route, sdkproto.AdapterDefaults, llm.Info, error) {
	return a.Catalog.Resolve(r)
}

// Stream implements llm.Adapter. A model that takes no images is told of them.
func (a *Adapter) Stream(ctx context.Context, req llm.Request) iter.Seq2[sdkproto.Chunk, error] {
	return a.Client.Stream(ctx, a.Shown(req))
}

// Shown gives a request as the model may see it: without the bytes of images
// where it takes none.
func (a *Adapter) Shown(req llm.Request) llm.Request {
	if !a.Catalog.model(req.Header.Config.Model).Images {
		req.Image = nil
	}
	return req
}
