package toollsp

import (
	"context"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

const (
	// quiet is how long a server must have reported nothing new about a document
	// before its diagnostics count as complete: many report them in parts.
	quiet = 750 * time.Millisecond
	// maxDiagnostics bounds what is kept of one document.
	maxDiagnostics = 5000
)

// published is what a server has last reported about a document.
type published struct {
	// at is zero before the first report.
	at      time.Time
	version *int
	list    []lspDiagnostic
}

// about says whether the report is about the document as it was last told.
func (p published) about(doc *document) bool {
	if p.at.IsZero() || p.at.Before(doc.told) {
		return false
	}
	return p.version == nil || *p.version >= doc.version
}

// publish takes a report up. Those about files that are not open are of no use.
func (s *server) publish(p lspPublished) {
	path, ok := pathOf(p.URI)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.published[path]; !open {
		return
	}
	s.published[path] = published{time.Now(), p.Version, p.Diagnostics[:min(len(p.Diagnostics), maxDiagnostics)]}
	s.changed()
}

// diagnose gives the diagnostics of a document; reported is false when the server
// has said nothing about it within the limit.
func (s *server) diagnose(ctx context.Context, f *file, doc *document) (list []lspDiagnostic, reported bool, err error) {
	s.mu.Lock()
	pull, latest := s.pull, s.published[f.path]
	s.mu.Unlock()
	if pull {
		var report lspReport
		err := s.request(ctx, "textDocument/diagnostic", lspParams{TextDocument: lspDocument{URI: doc.uri}}, &report)
		return report.Items, true, err
	}
	s.docs.mu.Lock()
	changed := s.docs.changed
	s.docs.mu.Unlock()
	if latest.about(doc) && latest.at.Before(changed) {
		// Another file has changed since, which may matter, and a server that finds the
		// same as before says nothing unless it is told something.
		if doc, err = s.again(f); err != nil {
			return nil, false, err
		}
	}
	return s.reports(ctx, f.path, doc)
}

// reports waits for what a server reports about a document.
func (s *server) reports(ctx context.Context, path string, doc *document) ([]lspDiagnostic, bool, error) {
	limit := time.NewTimer(time.Duration(s.lsp.config.DiagnosticsTimeout))
	defer limit.Stop()
	for {
		s.mu.Lock()
		latest, change := s.published[path], s.change
		s.mu.Unlock()
		there := latest.about(doc)
		var silent <-chan time.Time
		if there {
			rest := quiet - time.Since(latest.at)
			if rest <= 0 {
				return latest.list, true, nil
			}
			silent = time.After(rest)
		}
		select {
		case <-change:
		case <-silent:
		case <-limit.C:
			if there {
				return latest.list, true, nil
			}
			return nil, false, nil
		case <-s.conn.DisconnectNotify():
			return nil, false, s.broken("", jsonrpc2.ErrClosed)
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}
