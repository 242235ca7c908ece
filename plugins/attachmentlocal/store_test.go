package attachmentlocal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/attachment"
	"dsh/kernel/attachment/attachmenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	attachmenttest.TestStore(t, func(_ *testing.T, dir string) attachment.Store { return NewStore(dir) })
}

func picture(t *testing.T, side int) attachment.Upload {
	return attachment.Upload{Bytes: attachmenttest.PNG(t, attachmenttest.Gradient(side, side)), MediaType: typePNG}
}

// files lists the files below a folder.
func files(t *testing.T, dir string) []string {
	t.Helper()
	names := []string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Spec jsonrpc 9.7: objects are named by their digest, identical content is
// there once, nothing is left in staging.
func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home", "attachments")
	s := NewStore(dir)
	refs, err := s.Admit(context.Background(), []attachment.Upload{picture(t, 2), picture(t, 3), picture(t, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Admit(context.Background(), []attachment.Upload{picture(t, 3)}); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, ref := range refs {
		want["objects/"+strings.TrimPrefix(ref.AttachmentID, "sha256:")] = true
	}
	got := map[string]bool{}
	for _, name := range files(t, dir) {
		got[name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 2 {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// What a crash left in staging goes once nobody can wait for it.
func TestAbandonedFiles(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir)
	if err := os.MkdirAll(s.staging, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"old": 2 * time.Hour, "new": time.Minute} {
		path := filepath.Join(s.staging, name)
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Admit(context.Background(), []attachment.Upload{picture(t, 2)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"new"}, files(t, s.staging)); diff != "" {
		t.Error(diff)
	}
}

// A damaged object is told, not handed on, and the next upload mends it as far
// as its size shows.
func TestDamaged(t *testing.T) {
	s := NewStore(t.TempDir())
	refs, err := s.Admit(context.Background(), []attachment.Upload{picture(t, 4)})
	if err != nil {
		t.Fatal(err)
	}
	id := refs[0].AttachmentID
	path := filepath.Join(s.objects, strings.TrimPrefix(id, idPrefix))
	if err := os.WriteFile(path, []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(context.Background(), id); err == nil || errors.Is(err, attachment.ErrNotFound) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("read: %v", err)
	}
	if _, err := s.Admit(context.Background(), []attachment.Upload{picture(t, 4)}); err != nil {
		t.Fatal(err)
	}
	if data, err := s.Read(context.Background(), id); err != nil || !bytes.Equal(data, picture(t, 4).Bytes) {
		t.Errorf("read again: %v", err)
	}
}

// A disk that takes nothing is an error of the store's, not of the image, and
// leaves nothing.
func TestDiskError(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir)
	if err := os.WriteFile(s.staging, nil, 0o600); err != nil { // where a folder must be
		t.Fatal(err)
	}
	_, err := s.Admit(context.Background(), []attachment.Upload{picture(t, 4)})
	var refused *attachment.Error
	if err == nil || errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"staging"}, files(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// Nothing is put in place when a file of the batch cannot be written.
func TestNothingOfHalfABatch(t *testing.T) {
	s := NewStore(t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	first := newObject([]byte("one"))
	if err := s.stage(&first); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := s.write(ctx, []object{first, newObject([]byte("two"))}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left := append(files(t, s.objects), files(t, s.staging)...); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestRow(t *testing.T) {
	home := t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), "x")
	for dir, want := range map[string]string{"": filepath.Join(home, "attachments"), "a/b": filepath.Join(home, "a", "b"), elsewhere: elsewhere} {
		s := New(Params{Self: kernel.Instance{Home: home}, Config: Config{Dir: dir}}).(*Store)
		if got := filepath.Dir(s.objects); got != want {
			t.Errorf("dir %q is %s, want %s", dir, got, want)
		}
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("made before the first image: %v, %v", entries, err)
	}
}
