package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"dsh/cmd/internal/wiretest"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// transcript writes conversations for a reader: one line a frame, an arrow for
// its direction, and what differs from run to run replaced (wiretest.Plain):
//
//   - message and retry ids by U1, U2, ...
//   - times by 0, the work directory by $WORK
//   - the schemas of request/header by the names of the tools, which keeps the
//     line short and the transcript independent of their wording
//
// The answer to a prompt has no fixed place among the notifications (spec
// jsonrpc 1.4); it stands directly behind the write that asked.
type transcript struct{ lines *wiretest.Plain }

func newTranscript(work string) *transcript {
	return &transcript{wiretest.NewPlain(work, "$WORK", "time")}
}

var uuids = regexp.MustCompile(wiretest.UUID)

// plain replaces what differs from run to run.
func (t *transcript) plain(line []byte) string { return t.lines.Line(string(shortenTools(line))) }

// shortenTools works on a notification, an event and a request.
func shortenTools(line []byte) []byte {
	if !bytes.Contains(line, []byte(`"tools":[{`)) {
		return line
	}
	type holder struct {
		Header struct {
			Tools json.RawMessage `json:"tools"`
		} `json:"header"`
	}
	var frame struct {
		Params struct {
			Event struct {
				Data holder `json:"data"`
			} `json:"event"`
		} `json:"params"`
		Data holder `json:"data"`
		holder
	}
	if err := wirejson.Unmarshal(line, &frame); err != nil {
		return line
	}
	for _, h := range []holder{frame.Params.Event.Data, frame.Data, frame.holder} {
		var named []struct {
			Name string `json:"name"`
		}
		if tools := h.Header.Tools; tools != nil && wirejson.Unmarshal(tools, &named) == nil {
			names := make([]string, len(named))
			for i, n := range named {
				names[i] = n.Name
			}
			line = bytes.Replace(line, tools, []byte(show(names)), 1)
		}
	}
	return line
}

// append adds the entries that were not shown yet.
func (t *transcript) append(b *strings.Builder, p *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.entries
	isPromptAnswer := func(e entry) bool {
		id := member(e.value, "id")
		return e.kind == received && id != nil && p.rules.requests[show(id)] == sdkproto.MethodSessionPrompt
	}
	for i := p.shown; i < len(all); i++ {
		e := all[i]
		if isPromptAnswer(e) {
			continue
		}
		fmt.Fprintf(b, "%s %s\n", e.kind.arrow(), t.plain(e.line))
		if e.kind != sent || i+1 < len(all) && all[i+1].kind == sent && all[i+1].write == e.write {
			continue
		}
		for _, asked := range all[p.shown : i+1] {
			if asked.kind != sent || asked.write != e.write {
				continue
			}
			for _, answer := range all {
				if isPromptAnswer(answer) && matches(member(asked.value, "id"), member(answer.value, "id")) {
					fmt.Fprintf(b, "%s %s\n", received.arrow(), t.plain(answer.line))
				}
			}
		}
	}
	p.shown = len(all)
}
