package project

import (
	"slices"

	"dsh/sdkproto"
)

// inbox knows which messages wait in the agent's lists, so that a splice that
// removes some tells which.
type inbox struct {
	lists map[string][]string
}

// splice takes one change and gives the ids of what it removed, "" for those that
// were there before the projector was.
func (b *inbox) splice(s *sdkproto.AgentInboxSpliced) (removed []string) {
	if b.lists == nil {
		b.lists = map[string][]string{}
	}
	list := b.lists[s.Target]
	if short := max(s.Start, 0) + max(s.RemovedCount, 0) - len(list); short > 0 {
		// It waited already when the first change was heard.
		list = append(list, make([]string, short)...)
	}
	from := max(s.Start, 0)
	to := from + max(s.RemovedCount, 0)
	removed = slices.Clone(list[from:to])
	ids := make([]string, len(s.Inserted))
	for i := range s.Inserted {
		ids[i] = s.Inserted[i].ID
	}
	b.lists[s.Target] = slices.Replace(list, from, to, ids...)
	return removed
}
