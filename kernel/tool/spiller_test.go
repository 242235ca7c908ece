package tool_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// folder keeps output in real files, or has no place for it.
type folder struct {
	dir  string
	full bool
}

type keptFile struct{ *os.File }

func (f keptFile) Path() string { return f.Name() }

func (d folder) Spill(sessionID, callID string) (tool.SpillFile, error) {
	if d.full {
		return nil, errors.New("disk full")
	}
	f, err := os.Create(filepath.Join(d.dir, sessionID+"-"+callID))
	return keptFile{f}, err
}

// TestBound: no result has more text than it may, counted in characters; all of it
// is in the call's file (decision D19), and what is no text stays.
func TestBound(t *testing.T) {
	image := sdkproto.Block{Type: sdkproto.BlockImage, MimeType: "image/png", Data: "AAAA"}
	text := sdkproto.Text
	own := cmpopts.IgnoreUnexported(sdkproto.Block{})
	for _, tc := range []struct {
		name string
		in   []sdkproto.Block
		// kept is what is left but for the note; nil for a result that stays as it is.
		kept []sdkproto.Block
		note string
		file string
	}{
		{"just enough", []sdkproto.Block{text("0123456789")}, nil, "", ""},
		{"characters, not bytes", []sdkproto.Block{text("ééééé"), text("ééééé")}, nil, "", ""},
		{"images do not count", []sdkproto.Block{text("0123456789"), image}, nil, "", ""},
		{"one more", []sdkproto.Block{text("0123456789+")}, []sdkproto.Block{text("0123456789")}, "11 characters of text, more than the 10", "0123456789+\n"},
		{"characters stay whole", []sdkproto.Block{text("ééééééééééé")}, []sdkproto.Block{text("éééééééééé")}, "11 characters", "ééééééééééé\n"},
		{"several blocks", []sdkproto.Block{text("01234\n"), image, text("56789"), text("lost"), image},
			[]sdkproto.Block{text("01234\n"), image, text("5678"), image}, "15 characters", "01234\n56789\nlost\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := tool.Invocation{SessionID: "s", CallID: "c"}
			dir := t.TempDir()
			path := filepath.Join(dir, "s-c")
			given := tool.Result{Content: tc.in, IsError: true}
			got := tool.Bound(given, 10, folder{dir: dir}, in)
			if tc.kept == nil {
				if diff := cmp.Diff(given, got, own); diff != "" {
					t.Error(diff)
				}
				if _, err := os.Stat(path); err == nil {
					t.Error("there is a file")
				}
				return
			}
			last := len(got.Content) - 1
			if diff := cmp.Diff(tc.kept, got.Content[:last], own); diff != "" {
				t.Error(diff)
			}
			if note := got.Content[last].Text; !strings.Contains(note, tc.note) || !strings.Contains(note, path) || !got.IsError {
				t.Errorf("note %q, failed %v; want %q and %s", note, got.IsError, tc.note, path)
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != tc.file {
				t.Errorf("the file holds %q, %v; want %q", data, err, tc.file)
			}
		})
	}
	t.Run("no place", func(t *testing.T) {
		for want, to := range map[string]tool.Spiller{"The rest is lost.]": nil, "The rest is lost: disk full.]": folder{full: true}} {
			got := tool.Bound(tool.TextResult("0123456789+"), 10, to, tool.Invocation{SessionID: "s", CallID: "c"})
			if s := sdkproto.TextOf(got.Content); !strings.HasPrefix(s, "0123456789[") || !strings.HasSuffix(s, want) {
				t.Errorf("got %q, want the end %q", s, want)
			}
		}
	})
}
