package ndjson_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync/atomic"
	"testing"

	"dsh/sdkproto/ndjson"
)

// countingSink counts the writes that reach the file behind it.
type countingSink struct {
	io.Writer
	writes atomic.Int64
}

func (s *countingSink) Write(p []byte) (int, error) {
	s.writes.Add(1)
	return s.Writer.Write(p)
}

// BenchmarkWriter is the stream of performance.md section 2: 20,000 small
// frames into a pipe with a peer that reads them.
func BenchmarkWriter(b *testing.B) {
	const frames = 20_000
	frame := bytes.Repeat([]byte{'x'}, 150)
	r, pipe, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	drained := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, struct{ io.Reader }{r})
		drained <- err
	}()
	sink := &countingSink{Writer: pipe}
	w := ndjson.NewWriter(sink, 1024)
	ctx := context.Background()
	b.ReportAllocs()
	b.SetBytes(frames * int64(len(frame)+1))
	for b.Loop() {
		for range frames {
			if err := w.Frame(ctx, frame); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Flush(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(sink.writes.Load())/float64(b.N), "writes/op")
	if err := w.Close(ctx); err != nil {
		b.Fatal(err)
	}
	pipe.Close()
	if err := <-drained; err != nil {
		b.Fatal(err)
	}
	r.Close()
}

// BenchmarkReader reads small lines, and one of 30 MiB: both have to cost the
// same for a byte.
func BenchmarkReader(b *testing.B) {
	for _, c := range []struct {
		name string
		line int
	}{{"150B", 150}, {"30MiB", 30 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			line := append(bytes.Repeat([]byte{'x'}, c.line-1), '\n')
			input := bytes.Repeat(line, max(1, (3<<20)/len(line)))
			b.ReportAllocs()
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				r := ndjson.NewReader(bytes.NewReader(input), 0)
				for {
					if _, _, err := r.Next(); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
