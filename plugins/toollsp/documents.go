package toollsp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"dsh/plugins/internal/textfile"
)

const (
	// maxOpen bounds the documents that are open at a server.
	maxOpen = 50
	// maxEntries bounds the files and folders of a workspace that are looked at for
	// changes, and watchLimit the time for it.
	maxEntries = 50_000
	watchLimit = 5 * time.Second
)

// file is a text on the disk as it was at a moment.
type file struct {
	path  string
	text  string
	lines []string
	stamp stamp
}

// stamp tells whether a file has changed.
type stamp struct {
	size int64
	time time.Time
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime()} }

// errTooLarge and errBinary say why a file is shown to no server.
var (
	errTooLarge = errors.New("it is too large for a language server")
	errBinary   = errors.New("it is not a text")
)

// readFile reads a text as servers are to see it: UTF-8, without a mark in front.
func readFile(path string, most int) (*file, error) {
	f, info, err := textfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > int64(most) {
		return nil, errTooLarge
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, err
	}
	enc := textfile.Sniff(data)
	switch {
	case len(data) > most:
		return nil, errTooLarge
	case enc == textfile.Binary:
		return nil, errBinary
	}
	data = data[len(enc.BOM()):]
	if enc == textfile.UTF16LE || enc == textfile.UTF16BE {
		if data, err = io.ReadAll(enc.Reader(strings.NewReader(string(data)))); err != nil {
			return nil, err
		}
	}
	text := strings.ToValidUTF8(string(data), "\ufffd")
	return &file{path, text, splitLines(text), stampOf(info)}, nil
}

// document is a file that is open at the server.
type document struct {
	uri     string
	version int
	sum     [sha256.Size]byte
	stamp   stamp
	used    time.Time
	// told is when the server was last told its text.
	told time.Time
}

// documents are what the server has been told of files.
type documents struct {
	mu   sync.Mutex
	open map[string]*document
	// stamps are those of the workspace's files when it was last looked at.
	stamps map[string]stamp
	// unwatched says that the workspace is too large to be looked at.
	unwatched bool
	// changed is when the server was last told of any change.
	changed time.Time
}

// watch takes the first look at a workspace.
func (d *documents) watch(ctx context.Context, root string, how *launch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stamps, d.unwatched = look(ctx, root, how)
}

// look gives the stamps of all files of a workspace that its server wants to know of.
func look(ctx context.Context, root string, how *launch) (stamps map[string]stamp, tooLarge bool) {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	stamps = map[string]stamp{}
	entries := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if entries++; entries > maxEntries || ctx.Err() != nil {
			return errTooLarge
		}
		if err != nil {
			return nil // what cannot be read is not known to the server either
		}
		name := e.Name()
		if e.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() || !slices.Contains(how.projects, name) && !slices.Contains(how.extensions, filepath.Ext(name)) {
			return nil
		}
		if info, err := e.Info(); err == nil {
			stamps[path] = stampOf(info)
		}
		return nil
	})
	return stamps, err != nil
}

// show tells the server what has changed on the disk since the last call, and the
// text of f, which it opens.
func (s *server) show(ctx context.Context, f *file) (*document, error) {
	d := &s.docs
	d.mu.Lock()
	defer d.mu.Unlock()
	var events []lspFileEvent
	if !d.unwatched {
		stamps, tooLarge := look(ctx, s.key.root, s.how)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if d.unwatched = tooLarge; !tooLarge {
			events = compare(d.stamps, stamps)
			d.stamps = stamps
		}
	}
	if len(events) > 0 {
		if err := s.tell("workspace/didChangeWatchedFiles", object{"changes": events}); err != nil {
			return nil, err
		}
		d.changed = time.Now()
	}
	for path, doc := range d.open {
		if path == f.path {
			continue
		}
		info, err := os.Stat(path)
		if err == nil && stampOf(info) == doc.stamp {
			continue
		}
		other, err := readFile(path, s.lsp.config.MaxFile)
		if err != nil {
			err = s.shut(path, doc)
		} else {
			err = s.update(doc, other)
		}
		if err != nil {
			return nil, err
		}
	}
	doc := d.open[f.path]
	if doc == nil {
		if err := s.makeRoom(); err != nil {
			return nil, err
		}
		doc = &document{uri: uriOf(f.path), version: 1, sum: sha256.Sum256([]byte(f.text)), stamp: f.stamp, told: time.Now()}
		d.open[f.path], d.changed = doc, doc.told
		s.mu.Lock()
		s.published[f.path] = published{}
		s.mu.Unlock()
		if err := s.tell("textDocument/didOpen", object{"textDocument": lspDocumentItem{doc.uri, s.how.languageOf(f.path), doc.version, f.text}}); err != nil {
			return nil, err
		}
	} else if err := s.update(doc, f); err != nil {
		return nil, err
	}
	doc.used = time.Now()
	shown := *doc
	return &shown, nil
}

// compare gives the events between two looks at a workspace.
func compare(before, now map[string]stamp) []lspFileEvent {
	var events []lspFileEvent
	for path, st := range now {
		if old, ok := before[path]; !ok {
			events = append(events, lspFileEvent{uriOf(path), fileCreated})
		} else if old != st {
			events = append(events, lspFileEvent{uriOf(path), fileChanged})
		}
	}
	for path := range before {
		if _, ok := now[path]; !ok {
			events = append(events, lspFileEvent{uriOf(path), fileDeleted})
		}
	}
	return events
}

// update tells the server the text of an open document if it is another one. docs.mu
// is held.
func (s *server) update(doc *document, f *file) error {
	doc.stamp = f.stamp
	sum := sha256.Sum256([]byte(f.text))
	if sum == doc.sum {
		return nil
	}
	doc.sum = sum
	return s.send(doc, f)
}

func (s *server) send(doc *document, f *file) error {
	doc.version++
	doc.told = time.Now()
	s.docs.changed = doc.told
	return s.tell("textDocument/didChange", object{
		"textDocument": lspDocument{doc.uri, doc.version}, "contentChanges": []lspChange{{f.text}},
	})
}

// again tells the server the text of a document although it has not changed, so that
// it looks at it once more.
func (s *server) again(f *file) (*document, error) {
	s.docs.mu.Lock()
	defer s.docs.mu.Unlock()
	doc := s.docs.open[f.path]
	if doc == nil {
		return nil, fmt.Errorf("%s was closed meanwhile", f.path)
	}
	err := s.send(doc, f)
	shown := *doc
	return &shown, err
}

// makeRoom closes the document that was used least recently if there are too many.
// docs.mu is held.
func (s *server) makeRoom() error {
	if len(s.docs.open) < maxOpen {
		return nil
	}
	var oldest string
	for path, doc := range s.docs.open {
		if oldest == "" || doc.used.Before(s.docs.open[oldest].used) {
			oldest = path
		}
	}
	return s.shut(oldest, s.docs.open[oldest])
}

// shut closes a document. docs.mu is held.
func (s *server) shut(path string, doc *document) error {
	delete(s.docs.open, path)
	s.mu.Lock()
	delete(s.published, path)
	s.mu.Unlock()
	return s.tell("textDocument/didClose", object{"textDocument": lspDocument{URI: doc.uri}})
}
