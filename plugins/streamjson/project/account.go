package project

import (
	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// account counts what the process has used, by model. An answer counts once, with
// the price of the model that gave it; a price that is not known, or not in US
// dollars, counts nothing and is not guessed (cases B86, B87).
type account struct {
	info   func(provider, model string) llm.Info
	models map[string]*modelAccount
	// cost is that of the process, past what the session had cost before it.
	cost, past float64
}

type modelAccount struct {
	usage sdkproto.Usage
	cost  float64
	// infos are what is known of the model, by provider; last is that of the one
	// that answered last.
	infos map[string]llm.Info
	last  llm.Info
}

const currency = "USD"

func (a *account) add(provider, model string, u *sdkproto.Usage) {
	if u == nil {
		return
	}
	m := a.models[model]
	if m == nil {
		m = &modelAccount{infos: map[string]llm.Info{}}
		a.models[model] = m
	}
	info, known := m.infos[provider]
	if !known && a.info != nil {
		info = a.info(provider, model)
		m.infos[provider] = info
	}
	m.last = info
	m.usage.Add(u)
	if info.Price != nil && info.Price.Currency == currency {
		cost := info.Price.Cost(u)
		m.cost += cost
		a.cost += cost
	}
}

// before counts what was used before the process: the total has it, the accounts
// of the models, which are those of the process, have not (spec stream-json 3.7).
func (a *account) before(provider, model string, u *sdkproto.Usage) {
	one := account{info: a.info, models: map[string]*modelAccount{}}
	one.add(provider, model, u)
	a.past += one.cost
}

func (a *account) total() float64 { return a.past + a.cost }

func (a *account) byModel() map[string]streamjson.ModelUsage {
	all := make(map[string]streamjson.ModelUsage, len(a.models))
	for name, m := range a.models {
		all[name] = streamjson.ModelUsage{
			InputTokens: m.usage.InputTokens, OutputTokens: m.usage.OutputTokens,
			CacheReadInputTokens: m.usage.CacheReadTokens, CacheCreationInputTokens: m.usage.CacheWriteTokens,
			CostUSD: m.cost, ContextWindow: m.last.ContextWindow, MaxOutputTokens: m.last.MaxOutput,
		}
	}
	return all
}

// usage is an account in the words of the wire; nil counts nothing.
func usage(u *sdkproto.Usage) streamjson.Usage {
	if u == nil {
		return streamjson.Usage{}
	}
	return streamjson.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadInputTokens: u.CacheReadTokens, CacheCreationInputTokens: u.CacheWriteTokens,
	}
}
