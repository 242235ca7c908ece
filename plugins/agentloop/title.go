package agentloop

import (
	"strings"

	"dsh/kernel/session"
	"dsh/sdkproto"
)

// titleRunes bounds a fallback title.
const titleRunes = 40

// titleOf makes a title of a prompt's first words, with white space folded; ""
// for a prompt without text.
func titleOf(content []sdkproto.Block) string {
	var words []string
	length := 0
	for i := range content {
		if content[i].Type != sdkproto.BlockText {
			continue
		}
		for word := range strings.FieldsSeq(content[i].Text) {
			words = append(words, word)
			if length += len(word) + 1; length > titleRunes*4 {
				break
			}
		}
	}
	title := []rune(strings.Join(words, " "))
	return strings.TrimSpace(string(title[:min(len(title), titleRunes)]))
}

func titleDraft(title string, promptSeq int64) session.Draft {
	return session.Draft{Type: sdkproto.TypeSessionTitle, Data: &sdkproto.SessionTitle{
		Title: title, MessageSeqs: []int64{promptSeq}, Source: sdkproto.TitleSource{Kind: "fallback"},
	}}
}
