package chatwire

import (
	"net/http"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

func (d *Dialect) path() []string { return []string{"chat", "completions"} }

func (d *Dialect) authorize(h http.Header, key *key) {
	if d.KeyHeader == "" || key.bearer {
		h.Set("authorization", "Bearer "+key.Reveal())
		return
	}
	h.Set(d.KeyHeader, key.Reveal())
}

func (d *Dialect) refused(_ *llm.Request, err error) error { return err }

func (d *Dialect) reader(yield func(sdkproto.Chunk) bool, from *response) reader {
	return &answer{yield: yield, failure: from.reported}
}
