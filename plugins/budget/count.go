package budget

import (
	"hash/maphash"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// Upper bounds of what a request holds besides its texts, in tokens.
const (
	// perRequest is what providers put in front: their own instructions on tools.
	perRequest = 2000
	// perMessage and perTool are what stands around one of them.
	perMessage = 32
	perTool    = 128
	// perImage is the most that the APIs count for one image of the largest size that
	// attachments have.
	perImage = 6400
)

// counted is the bound of a request's input, and what it takes to find the request
// again as the beginning of a later one.
type counted struct {
	tokens int64
	// at are the sums behind the header, and behind each message.
	at []sum
}

type sum struct {
	tokens int64
	digest uint64
}

// known is what a provider has counted: tokens for a model's request that had these
// digests behind its header and behind so many messages.
type known struct {
	provider, model string
	messages        int
	header, digest  uint64
	tokens          int64
}

// maxKnown is how many kinds of requests a session remembers: its own, and those that
// are made beside the conversation.
const maxKnown = 4

// remember puts k in the place of the one with its header, or behind all.
func remember(list []known, k known) []known {
	for i := range list {
		if list[i].header == k.header {
			list[i] = k
			return list
		}
	}
	if len(list) == maxKnown {
		list = append(list[:0], list[1:]...)
	}
	return append(list, k)
}

// counter adds up texts.
type counter struct {
	hash   maphash.Hash
	tokens int64
}

func (c *counter) text(texts ...string) {
	for _, s := range texts {
		c.tokens += int64(len(s))
		c.note(s)
	}
}

// note makes a text part of the digest, apart from its neighbours.
func (c *counter) note(s string) {
	maphash.WriteComparable(&c.hash, len(s))
	_, _ = c.hash.WriteString(s) // never fails
}

func (c *counter) blocks(blocks []sdkproto.Block) {
	for i := range blocks {
		b := &blocks[i]
		c.note(b.Type)
		c.tokens += perMessage
		if b.Type == sdkproto.BlockImage {
			c.tokens += perImage
			if a := b.Attachment; a != nil {
				c.note(a.AttachmentID)
				c.text(a.Name) // of the text that stands for one that cannot be read
			}
			continue
		}
		c.text(b.Text, b.Signature, b.ID, b.Name, b.Arguments, b.ToolCallID, b.Data)
		c.blocks(b.Content)
	}
}

// count bounds the input of a request: no tokenizer makes more tokens of a text than
// it has bytes. What the provider has counted takes the place of that where the
// request begins as one before.
func count(seed maphash.Seed, r *llm.Request, before []known) counted {
	c := &counter{tokens: perRequest}
	c.hash.SetSeed(seed)
	var out counted
	mark := func() { out.at = append(out.at, sum{c.tokens, c.hash.Sum64()}) }
	out.at = make([]sum, 0, len(r.Messages)+1)
	c.text(r.Header.System)
	for i := range r.Header.Tools {
		t := &r.Header.Tools[i]
		c.tokens += perTool
		c.text(t.Name, t.Description, string(t.Parameters))
	}
	mark()
	for i := range r.Messages {
		m := &r.Messages[i]
		c.tokens += perMessage
		c.note(m.Role)
		c.text(string(m.Source.ReplayState))
		c.blocks(m.Content)
		mark()
	}
	out.tokens = c.tokens
	config := &r.Header.Config
	for _, k := range before {
		n := k.messages
		if k.provider == config.Provider && k.model == config.Model && n < len(out.at) && out.at[n].digest == k.digest {
			out.tokens = min(out.tokens, k.tokens+c.tokens-out.at[n].tokens)
		}
	}
	return out
}

// learn is what a provider has counted for a request, with its answer.
func (c *counted) learn(r *llm.Request, u *sdkproto.Usage) known {
	last := len(c.at) - 1
	return known{
		r.Header.Config.Provider, r.Header.Config.Model, last, c.at[0].digest, c.at[last].digest, u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens,
	}
}
