package subagent_test

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/llm"
)

type modelsConfig struct {
	Mock string `json:"mock"`
}

// testModels is a row that provides names.
var testModels = kernel.Define("test-models", "Says what models mean.", func() modelsConfig { return modelsConfig{} },
	func(_ kernel.Instance, c modelsConfig) fx.Option {
		return fx.Provide(func() llm.Models { return names{c.Mock} })
	}, kernel.Provides[llm.Models]())
