package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"

	"dsh/kernel/attachment"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// inline is an image that came with its bytes, and its place among the blocks.
type inline struct {
	at int
	attachment.Upload
}

// present is a JSON value of which only matters whether it is there; it copies
// nothing.
type present bool

// UnmarshalJSON takes anything; null is not there.
func (p *present) UnmarshalJSON(data []byte) error {
	*p = present(!isNull(data))
	return nil
}

// inlineImage reads a block that is an image with its bytes (spec jsonrpc 2.8):
// nil when it is anything else.
func inlineImage(item []byte) (*inline, error) {
	if !isObject(item) {
		return nil, nil
	}
	var head struct {
		Type       json.RawMessage `json:"type"`
		Data       present         `json:"data"`
		Attachment present         `json:"attachment"`
	}
	if wirejson.Unmarshal(item, &head) != nil || !bool(head.Data) {
		return nil, nil // what is wrong with it shows when the block is read
	}
	if kind, _ := text(head.Type); kind != sdkproto.BlockImage {
		return nil, nil
	}
	if head.Attachment {
		return nil, errors.New("an image has either data or attachment")
	}
	var image struct {
		Data     string `json:"data"`
		MimeType string `json:"mimeType"`
		Name     string `json:"name"`
	}
	if err := wirejson.Unmarshal(item, &image); err != nil {
		return nil, err
	}
	return &inline{Upload: attachment.Upload{Base64: image.Data, MediaType: image.MimeType, Name: image.Name}}, nil
}

// holdsInline reports whether blocks inside others are images with their bytes.
func holdsInline(blocks []sdkproto.Block) bool {
	for i := range blocks {
		if blocks[i].Type == sdkproto.BlockImage && (blocks[i].Data != "" || blocks[i].MimeType != "") || holdsInline(blocks[i].Content) {
			return true
		}
	}
	return false
}

// keepImages puts the images of a message into the store, all or none, and
// references into their places (S132). Nothing of the session is touched.
func (s *Server) keepImages(m *message) error {
	batch := make([]attachment.Upload, len(m.images))
	for i := range m.images {
		batch[i] = m.images[i].Upload
		m.images[i].Upload = attachment.Upload{}
	}
	refs, err := s.attachments.Admit(s.work, batch)
	var refused *attachment.Error
	switch {
	case errors.As(err, &refused):
		field := "contentBlocks"
		if refused.Index >= 0 && refused.Index < len(m.images) {
			field = fmt.Sprintf("contentBlocks[%d]", m.images[refused.Index].at)
		}
		return &fault{
			sdkproto.CodeInvalidParams, sdkproto.ErrorData{Code: refused.Code, Field: field},
			fmt.Sprintf("%s (%s, %s)", refused.Message, refused.Code, field),
		}
	case err != nil:
		return fmt.Errorf("%s contentBlocks: %w", m.r.method, err)
	case len(refs) != len(batch):
		return fmt.Errorf("%s contentBlocks: the attachment store gave %d references for %d images", m.r.method, len(refs), len(batch))
	}
	for i := range refs {
		m.blocks[m.images[i].at] = sdkproto.Block{Type: sdkproto.BlockImage, Attachment: &refs[i]}
	}
	m.images = nil
	return nil
}
