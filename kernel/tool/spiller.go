package tool

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"dsh/sdkproto"
)

// Spiller keeps output that is too long for the model where the model can read
// it (decision D19). Its methods may be called from any goroutine.
type Spiller interface {
	// Spill starts a file for one call's output; path is absolute. The file goes
	// when the session is deleted.
	Spill(sessionID, callID string) (f SpillFile, err error)
}

// SpillFile takes the whole output of a call.
type SpillFile interface {
	Write(p []byte) (int, error)
	Close() error
	Path() string
}

// Keep writes parts, one behind the other, into a file for one call's output and
// gives its path. A nil Spiller is an error, as a full disk is.
func Keep(to Spiller, sessionID, callID string, parts ...[]byte) (path string, err error) {
	if to == nil {
		return "", errors.New("no row of the profile keeps files")
	}
	f, err := to.Spill(sessionID, callID)
	if err != nil {
		return "", err
	}
	for _, part := range parts {
		if _, err = f.Write(part); err != nil {
			break
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("keep output: %w", err)
	}
	return f.Path(), nil
}

// Bound keeps the text of a result within most characters; all of it goes into a
// file of the call, where there is a place for it, and a note says so. Blocks that
// are no text stay as they are.
func Bound(r Result, most int, to Spiller, in Invocation) Result {
	bytes, size := 0, 0
	for i := range r.Content {
		bytes += len(textOf(&r.Content[i]))
	}
	if bytes <= most {
		return r
	}
	for i := range r.Content {
		size += utf8.RuneCountInString(textOf(&r.Content[i]))
	}
	if size <= most {
		return r
	}
	var whole [][]byte
	kept := make([]sdkproto.Block, 0, len(r.Content)+1)
	for left, i := most, 0; i < len(r.Content); i++ {
		b := r.Content[i]
		if b.Type != sdkproto.BlockText {
			kept = append(kept, b)
			continue
		}
		whole = append(whole, []byte(strings.TrimSuffix(b.Text, "\n")+"\n"))
		if begin := beginning(b.Text, left); begin != "" {
			kept = append(kept, sdkproto.Text(begin))
			left -= utf8.RuneCountInString(begin)
		}
	}
	where := "The rest is lost."
	if to != nil {
		path, err := Keep(to, in.SessionID, in.CallID, whole...)
		if err != nil {
			where = fmt.Sprintf("The rest is lost: %v.", err)
		} else {
			where = "The whole is in " + path + ": read that file in parts, or search it."
		}
	}
	r.Content = append(kept, sdkproto.Text(fmt.Sprintf("[The result has %d characters of text, more than the %d that fit. %s]", size, most, where)))
	return r
}

func textOf(b *sdkproto.Block) string {
	if b.Type != sdkproto.BlockText {
		return ""
	}
	return b.Text
}

// beginning gives the first most characters.
func beginning(text string, most int) string {
	if most <= 0 {
		return ""
	}
	n := 0
	for at := range text {
		if n == most {
			return text[:at]
		}
		n++
	}
	return text
}
