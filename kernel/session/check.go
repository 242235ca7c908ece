package session

import (
	"bytes"
	"context"
	"fmt"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// CheckHistory reads a session again from the store and reports whether the
// history and request header that follow from it are those of live, byte for
// byte when encoded. The error names the first difference. Nothing may be
// appended meanwhile.
func CheckHistory(ctx context.Context, st Store, id string, live *State) error {
	var stored struct {
		surface Surface
		header  HeaderFold
	}
	err := st.Read(ctx, id, 0, func(r *Record) error {
		if err := stored.surface.Apply(r); err != nil {
			return err
		}
		return stored.header.Apply(r)
	})
	if err != nil {
		return fmt.Errorf("check session %s: %w", id, err)
	}
	for i := range max(len(live.Surface.nodes), len(stored.surface.nodes)) {
		what := fmt.Sprintf("message %d of the history", i)
		switch {
		case i >= len(live.Surface.nodes):
			return differs(id, what, []byte("absent"), encoded(&stored.surface.nodes[i].msg))
		case i >= len(stored.surface.nodes):
			return differs(id, what, encoded(&live.Surface.nodes[i].msg), []byte("absent"))
		}
		if err := differs(id, what, encoded(&live.Surface.nodes[i].msg), encoded(&stored.surface.nodes[i].msg)); err != nil {
			return err
		}
	}
	if err := differs(id, "request header", encoded(live.Header.Header), encoded(stored.header.Header)); err != nil {
		return err
	}
	return differs(id, "request context", encoded(&live.Header.Context), encoded(&stored.header.Context))
}

func encoded[T sdkproto.Message | sdkproto.Header | sdkproto.RequestContext](v *T) []byte {
	if v == nil {
		return []byte("absent")
	}
	b, err := wirejson.Marshal(v)
	if err != nil {
		return []byte("not encodable: " + err.Error())
	}
	return b
}

// differs gives an error that shows both values around the first byte where
// they part, nil when they are equal.
func differs(id, what string, live, stored []byte) error {
	if bytes.Equal(live, stored) {
		return nil
	}
	at := 0
	for at < len(live) && at < len(stored) && live[at] == stored[at] {
		at++
	}
	return fmt.Errorf("session %s: the %s differs from the stored log at byte %d: live …%q, stored …%q",
		id, what, at, window(live, at), window(stored, at))
}

func window(b []byte, at int) []byte {
	const before, after = 30, 60
	return b[max(0, at-before):min(len(b), at+after)]
}
