package agentloop

import (
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// titleRunes bounds a fallback title.
const titleRunes = 40

func titleDraft(title string, promptSeq int64) session.Draft {
	return session.Draft{Type: sdkproto.TypeSessionTitle, Data: &sdkproto.SessionTitle{
		Title: title, MessageSeqs: []int64{promptSeq}, Source: sdkproto.TitleSource{Kind: "fallback"},
	}}
}
