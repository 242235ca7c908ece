package session

import (
	"slices"

	"dsh/sdkproto"
)

// claims are the messages that a turn took from the inbox and that have not
// become a user/message yet. Both happen in one batch, so there are some only
// when a power failure tore that batch.
type claims struct {
	list []claim
}

type claim struct {
	target string
	msg    sdkproto.Message
}

// apply takes up one record; inbox is as it was before the record.
func (c *claims) apply(r *Record, inbox *Inbox) error {
	switch r.Event.Type {
	case sdkproto.TypeAgentInboxSpliced:
		s, err := Decode[sdkproto.AgentInboxSpliced](r)
		if err != nil {
			return err
		}
		if s.Outcome == "" {
			for _, m := range inbox.cut(&s) {
				c.list = append(c.list, claim{s.Target, m})
			}
		}
		for i := range s.Inserted {
			c.drop(s.Inserted[i].ID)
		}
	case sdkproto.TypeUserMessage:
		if len(c.list) == 0 {
			return nil
		}
		m, err := Decode[sdkproto.Message](r)
		if err != nil {
			return err
		}
		c.drop(m.ID)
	case sdkproto.TypeTurnEnd:
		if len(c.list) == 0 {
			return nil
		}
		e, err := Decode[sdkproto.TurnEnd](r)
		if err != nil {
			return err
		}
		// A repair that was itself cut off has closed the turn and put nothing back.
		if e.Reason.Kind != sdkproto.EndInterrupted {
			c.list = nil
		}
	}
	return nil
}

func (c *claims) drop(id string) {
	c.list = slices.DeleteFunc(c.list, func(x claim) bool { return x.msg.ID == id })
	if len(c.list) == 0 {
		c.list = nil
	}
}

func (c *claims) of(target string) []sdkproto.Message {
	var out []sdkproto.Message
	for i := range c.list {
		if c.list[i].target == target {
			out = append(out, c.list[i].msg)
		}
	}
	return out
}
