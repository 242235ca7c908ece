package chatwire

import (
	"fmt"
	"sync"

	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// shared is the encoded part of requests that have the same system prompt and
// tools: thousands of sessions do.
type shared struct {
	prompt string
	first  *sdkproto.ToolSchema
	count  int

	// system is the first message, or the member with its comma where the protocol
	// has one; tools is the member with its comma. Both are empty without.
	system, tools []byte
}

// maxShared bounds the headers remembered; one that was forgotten is encoded
// again.
const maxShared = 16

type sharedHeaders struct {
	mu   sync.Mutex
	list []*shared
}

// of gives the encoded part of a header. A list of tools is known by where it
// is: headers do not change, and this one is kept from being collected.
func (s *sharedHeaders) of(d protocol, h *sdkproto.Header) (*shared, error) {
	var first *sdkproto.ToolSchema
	if len(h.Tools) > 0 {
		first = &h.Tools[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.list {
		if known.first == first && known.count == len(h.Tools) && known.prompt == h.System {
			return known, nil
		}
	}
	made, err := d.encodeHeader(h)
	if err != nil {
		return nil, err
	}
	made.prompt, made.first, made.count = h.System, first, len(h.Tools)
	if len(s.list) == maxShared {
		s.list = append(s.list[:0], s.list[1:]...)
	}
	s.list = append(s.list, made)
	return made, nil
}

func (d *Dialect) encodeHeader(h *sdkproto.Header) (*shared, error) {
	s := &shared{}
	if h.System != "" {
		s.system = append(s.system, `{"role":`...)
		s.system = wirejson.AppendString(s.system, d.SystemRole)
		s.system = append(s.system, `,"content":`...)
		s.system = append(wirejson.AppendString(s.system, h.System), '}')
	}
	if len(h.Tools) == 0 {
		return s, nil
	}
	s.tools = append(s.tools, `,"tools":[`...)
	begin := len(s.tools)
	for i := range h.Tools {
		t := &h.Tools[i]
		s.tools = append(opens(s.tools, begin), `{"type":"function","function":{"name":`...)
		s.tools = wirejson.AppendString(s.tools, t.Name)
		s.tools = append(s.tools, `,"description":`...)
		s.tools = wirejson.AppendString(s.tools, t.Description)
		if len(t.Parameters) > 0 {
			parameters, err := wirejson.Compact(t.Parameters)
			if err != nil {
				return nil, fmt.Errorf("encode the parameters of tool %s: %w", t.Name, err)
			}
			s.tools = append(s.tools, `,"parameters":`...)
			s.tools = append(s.tools, parameters...)
		}
		s.tools = append(s.tools, "}}"...)
	}
	s.tools = append(s.tools, ']')
	return s, nil
}
