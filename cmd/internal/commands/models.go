package commands

import (
	"context"
	"fmt"
	"strings"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/kernel/profile"
	usersettings "dsh/kernel/settings"
	"dsh/plugins"
	"dsh/plugins/models"
	"dsh/plugins/streamjson"
)

// checkModels says which model would answer without flags, and by which rule
// (S080). Only a profile with a row for it has one.
func (p Set) checkModels(ctx context.Context, loaded *profile.Profile) []check {
	only := kernel.Only[llm.Models](plugins.Builtin(), loaded)
	if len(only.Entries) == 0 {
		return nil
	}
	c := check{Name: "model", Status: checkFail, Fix: "correct the rows models and front of the profile"}
	opts := p.KernelOptions(only)
	opts.Log = nil
	k, err := kernel.Compose(ctx, opts)
	if err != nil {
		c.Detail = err.Error()
		return []check{c}
	}
	defer func() { _ = k.Stop() }() // nothing was started
	catalogue, _ := kernel.Seam[llm.Models](k)
	format, model := frontModel(loaded)
	from := ""
	if model == "" {
		model = p.settingsModel(ctx)
		if model != "" {
			from = ", as the settings files say"
		}
	}
	route, err := catalogue.Resolve(format, model)
	if err != nil {
		c.Detail = err.Error()
		return []check{c}
	}
	c.Status, c.Fix = checkOK, ""
	c.Detail = fmt.Sprintf("%s of provider %s answers%s; credential: %s", route.Model, route.Provider, from, catalogue.Credential(route))
	rule := modelRule(loaded)
	return []check{c, {Name: "--api-format", Status: checkOK, Detail: strings.Join(rule, " "), lines: rule}}
}

// settingsModel is the model that the settings files of this folder name, which
// counts where the profile names none (spec stream-json 7.4); "" without settings.
func (p Set) settingsModel(ctx context.Context) (model string) {
	// A profile without settings, and files that cannot be read, name no model.
	_ = p.withSettings(ctx, func(layers []usersettings.Layer) error {
		model = usersettings.Text(layers, "model")
		return nil
	})
	return model
}

// frontModel is what the row of the front end says about the model.
func frontModel(loaded *profile.Profile) (format, model string) {
	for _, e := range loaded.Entries {
		var config streamjson.Config
		if e.Enabled && e.Use == streamjson.Plugin.Name && len(e.Decode(&config)) == 0 {
			return config.APIFormat, config.Model
		}
	}
	return "", ""
}

// modelRule is the rule in words, as the profile's row models has it.
func modelRule(loaded *profile.Profile) []string {
	for _, e := range loaded.Entries {
		config, ok := models.Plugin.Defaults().(*models.Config)
		if e.Enabled && e.Use == models.Plugin.Name && ok && len(e.Decode(config)) == 0 {
			return config.Rule()
		}
	}
	return models.Rule()
}
