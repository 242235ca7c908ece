package project

import (
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// compaction is the one that runs.
type compaction struct {
	began   int64 // in epoch milliseconds
	trigger string
	// tokens is what the last request before it held, with its answer.
	tokens int64
}

func (p *Projector) compacting(now int64, s *sdkproto.CompactionStart) *End {
	p.stream.cut()
	p.compact = compaction{began: now, trigger: streamjson.TriggerAuto, tokens: p.context}
	if s.SourceCommandID != "" {
		p.compact.trigger = streamjson.TriggerManual
	}
	word := streamjson.StatusCompacting
	p.emit(&streamjson.Status{Head: p.system(streamjson.SystemStatus), Status: &word})
	return nil
}

// summarised counts what the summary of a history cost, of any thread.
func (p *Projector) summarised(s *sdkproto.CompactionSummary) *End {
	summarised(s, p.account.add)
	return nil
}

// summarised counts the requests of a summary, one by one.
func summarised(s *sdkproto.CompactionSummary, count func(provider, model string, u *sdkproto.Usage)) {
	if len(s.Requests) == 0 {
		count(s.Provider, s.Model, s.Usage)
	}
	for i := range s.Requests {
		count(s.Provider, s.Model, &s.Requests[i])
	}
}

func (p *Projector) compacted(now int64, s *sdkproto.CompactionEnd) *End {
	if p.compact.began == 0 {
		return nil // it repairs the log of a process that is gone
	}
	line := &streamjson.Status{Head: p.system(streamjson.SystemStatus), CompactResult: streamjson.CompactSuccess}
	if s.Error != "" {
		line.CompactResult, line.CompactError = streamjson.CompactFailed, s.Error
	}
	p.emit(line)
	if s.Error == "" {
		head := p.system(streamjson.SystemCompactBoundary)
		head.UUID = streamjson.BlockUUID(s.CompactionID, 0)
		p.emit(&streamjson.CompactBoundary{
			Head: head,
			Metadata: streamjson.CompactMetadata{
				Trigger: p.compact.trigger, PreTokens: p.compact.tokens, DurationMs: max(now-p.compact.began, 0),
			},
		})
	}
	p.compact = compaction{}
	p.asks(now)
	return nil
}
