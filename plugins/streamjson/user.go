package streamjson

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"dsh/kernel/attachment"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

// message is one message of the user.
type message struct {
	// uuid is what the client knows it by, id what the log does: the same, unless
	// the client's is no UUID or came before.
	uuid, id string
	priority string
	// noQuery messages join the conversation without a turn and a result.
	noQuery bool
	origin  json.RawMessage
	// wire and parent are message and parent_tool_use_id as they came, for the
	// replay.
	wire, parent json.RawMessage
	content      []sdkproto.Block
	images       []image
	size         int
	// bad is why it is refused, nil when it is not.
	bad error
	// interrupted says that its turn is to end before it begins.
	interrupted bool
}

// image is an image that came with its bytes, and its place among the blocks.
type image struct {
	at int
	attachment.Upload
}

// aside is what a message without a query added.
type aside struct{ content []sdkproto.Block }

// maxUUID bounds what a client may call a message.
const maxUUID = 200

// readUser reads a user line (spec stream-json 2.1). What is wrong with it is kept
// in bad: such a line has its place in the queue and its result, too.
func readUser(line []byte) *message {
	m := &message{size: len(line), priority: streamjson.PriorityNext}
	var u streamjson.UserLine
	if err := wirejson.Unmarshal(line, &u); err != nil {
		m.bad = err
	}
	m.uuid, _ = text(u.UUID)
	if m.uuid == "" || len(m.uuid) > maxUUID {
		m.uuid = uuid.NewString()
	}
	m.id = m.uuid
	if uuid.Validate(m.id) != nil || len(m.id) != 36 {
		m.id = uuid.NewString()
	}
	if p, ok := text(u.Priority); ok && slices.Contains([]string{streamjson.PriorityNow, streamjson.PriorityLater}, p) {
		m.priority = p
	}
	m.noQuery = string(u.ShouldQuery) == "false"
	if len(u.Origin) > 0 && u.Origin[0] == '{' {
		m.origin = compact(u.Origin)
	}
	m.parent = json.RawMessage("null")
	if _, ok := text(u.ParentToolUseID); ok {
		m.parent = compact(u.ParentToolUseID)
	}
	if m.bad != nil {
		return m
	}
	if len(u.Message) == 0 || u.Message[0] != '{' {
		m.bad = errors.New("message must be an object")
		return m
	}
	m.wire = compact(u.Message)
	var inner streamjson.UserMessage
	if err := wirejson.Unmarshal(u.Message, &inner); err != nil {
		m.bad = err
		return m
	}
	if role, ok := text(inner.Role); !ok || role != sdkproto.RoleUser {
		m.bad = errors.New("message.role must be user")
		return m
	}
	m.bad = m.readContent(inner.Content)
	return m
}

func (m *message) readContent(raw json.RawMessage) error {
	if s, ok := text(raw); ok {
		m.content = []sdkproto.Block{sdkproto.Text(s)}
		return nil
	}
	if len(raw) == 0 || raw[0] != '[' {
		return errors.New("message.content must be a string or a list of content blocks")
	}
	var items []json.RawMessage
	if err := wirejson.Unmarshal(raw, &items); err != nil {
		return err
	}
	for i, item := range items {
		var b streamjson.UserBlock
		if err := wirejson.Unmarshal(item, &b); err != nil {
			return fmt.Errorf("message.content[%d]: %w", i, err)
		}
		switch {
		case b.Type == "text" && b.Text == nil:
			return fmt.Errorf("message.content[%d]: a text block needs a text", i)
		case b.Type == "text":
			m.content = append(m.content, sdkproto.Text(*b.Text))
		case b.Type == "image" && b.Source != nil && b.Source.Type == "base64":
			m.images = append(m.images, image{i, attachment.Upload{Base64: b.Source.Data, MediaType: b.Source.MediaType}})
			m.content = append(m.content, sdkproto.Block{Type: sdkproto.BlockImage})
		case b.Type == "image" && b.Source != nil && b.Source.Type == "url":
			// The harness fetches nothing on behalf of a message: the host can reach the
			// page as well, and knows whether it may.
			return fmt.Errorf("message.content[%d]: an image by url is not fetched; send its bytes with a source of type base64", i)
		case b.Type == "image":
			return fmt.Errorf("message.content[%d]: an image needs a source of type base64", i)
		default:
			return fmt.Errorf("message.content[%d]: unsupported content block type %q; use text or image", i, clip(b.Type))
		}
	}
	return nil
}

const (
	// maxEcho is the longest message that is replayed as it came: clients give up on
	// lines of a million characters (spec stream-json 0.2).
	maxEcho = 900_000
	// maxText is what is replayed of each text of a longer one, maxBlocks how many
	// texts.
	maxText, maxBlocks = 8_000, 20
)

// echo is the message for a replay: as it came, unless that is too long for a
// line; then the beginnings of its texts stand for it.
func (m *message) echo() json.RawMessage {
	if len(m.wire) <= maxEcho {
		return m.wire
	}
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	content := []block{{"text", fmt.Sprintf("[This message is replayed in part: it has %d bytes.]", len(m.wire))}}
	for _, b := range m.content[:min(len(m.content), maxBlocks)] {
		one := block{"text", "[image]"}
		if b.Type == sdkproto.BlockText {
			one.Text = strings.ToValidUTF8(b.Text[:min(len(b.Text), maxText)], "")
		}
		content = append(content, one)
	}
	encoded, err := wirejson.Marshal(map[string]any{"role": sdkproto.RoleUser, "content": content})
	if err != nil {
		return json.RawMessage("null") // not possible: it is text
	}
	return encoded
}

// blank reports whether there is nothing in a message that a model could answer.
func (m *message) blank() bool {
	return !slices.ContainsFunc(m.content, func(b sdkproto.Block) bool {
		return b.Type != sdkproto.BlockText || strings.TrimSpace(b.Text) != ""
	})
}

// keepImages puts the images into the store, all or none, and references into
// their places: the log never holds their bytes (S132).
func (s *Server) keepImages(ctx context.Context, m *message) error {
	if len(m.images) == 0 {
		return nil
	}
	if s.Images == nil {
		return errors.New("this profile keeps no images: enable a row of attachment-local")
	}
	batch := make([]attachment.Upload, len(m.images))
	for i := range m.images {
		batch[i] = m.images[i].Upload
		m.images[i].Upload = attachment.Upload{}
	}
	refs, err := s.Images.Admit(ctx, batch)
	var refused *attachment.Error
	switch {
	case errors.As(err, &refused) && refused.Index >= 0 && refused.Index < len(m.images):
		return fmt.Errorf("message.content[%d]: %s", m.images[refused.Index].at, refused.Message)
	case err != nil:
		return err
	case len(refs) != len(batch):
		return fmt.Errorf("the attachment store gave %d references for %d images", len(refs), len(batch))
	}
	for i := range refs {
		m.content[m.images[i].at] = sdkproto.Block{Type: sdkproto.BlockImage, Attachment: &refs[i]}
	}
	m.images = nil
	return nil
}

// text reads a JSON string.
func text(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return s, wirejson.Unmarshal(raw, &s) == nil
}

// compact gives a foreign value as it may stand in a line.
func compact(raw json.RawMessage) json.RawMessage {
	c, err := wirejson.Compact(raw)
	if err != nil {
		return nil // not possible: it was parsed as a part of its line
	}
	return c
}

// clip keeps a text that is echoed from filling the wire.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
