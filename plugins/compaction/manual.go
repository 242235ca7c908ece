package compaction

import (
	"context"

	"dsh/kernel/agent"
	"dsh/kernel/compaction"
)

var _ compaction.Compactor = (*Keeper)(nil)

// Limit implements compaction.Compactor.
func (k *Keeper) Limit(s agent.Step) int64 { return k.limit(&s) }

// Compact implements compaction.Compactor. The context at the head of the history
// stays, and so does a prompt without an answer.
func (k *Keeper) Compact(ctx context.Context, s agent.Step, o compaction.Order) (compaction.Done, error) {
	h := look(&s)
	done := compaction.Done{Before: h.tokens}
	all := span{from: h.head, to: h.unseen, tokens: h.sum(h.head, max(h.head, h.unseen))}
	if all.to <= all.from || all.to-all.from == 1 && isOurs(&h.nodes[all.from].Message) {
		return done, compaction.ErrNothing
	}
	r := &room{Keeper: k, step: s, account: &account{life: s.Agent.Life()}, order: &o}
	if err := r.replace(ctx, h, all); err != nil {
		return done, err
	}
	s.Agent.Log().View(func() { done.After, _ = s.State.Usage.Context() })
	return done, nil
}
