package streamclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh/sdkproto/client/streamclient"
	"dsh/sdkproto/streamjson"
)

// options starts the test binary as a program.
func options(role string) streamclient.Options {
	return streamclient.Options{Command: os.Args[0], Env: append(os.Environ(), programVariable+"="+role)}
}

func start(t *testing.T, o streamclient.Options) *streamclient.Session {
	t.Helper()
	s, err := streamclient.Start(deadline(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(deadline(t)) })
	return s
}

// deadline is a context that ends before the test hangs.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func query(t *testing.T, s *streamclient.Session, text string) *streamclient.Turn {
	t.Helper()
	turn, err := s.Query(deadline(t), text)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// types gives the lines of a turn by their types, and its error.
func types(t *testing.T, turn *streamclient.Turn) (list []string, last error) {
	t.Helper()
	for l, err := range turn.Lines(deadline(t)) {
		if err != nil {
			return list, err
		}
		list = append(list, l.Type)
	}
	return list, nil
}

// Lines that are none of the wire are skipped, those that are new are kept as they
// came, and nothing of that disturbs the turn; a question that nobody here answers
// gets an error (spec stream-json 0.2, 2.2, 5.5).
func TestStrangeLines(t *testing.T) {
	t.Parallel()
	s := start(t, options("usual"))
	all := s.Lines(deadline(t))
	turn := query(t, s, "strange")
	var news, assistant *streamclient.Line
	for l, err := range turn.Lines(deadline(t)) {
		if err != nil {
			t.Fatal(err)
		}
		switch l.Type {
		case "news":
			news = &l
		case "assistant":
			assistant = &l
		}
	}
	if news == nil || news.Body != nil || news.Subtype != "" || news.UUID != "" || string(news.Raw) != `{"type":"news","subtype":5,"uuid":[],"extra":{"a":1}}` {
		t.Errorf("a new line is %+v", news)
	}
	var decoded struct{ Extra struct{ A int } }
	if err := json.Unmarshal(news.Raw, &decoded); err != nil || decoded.Extra.A != 1 {
		t.Error(decoded, err)
	}
	if assistant == nil || assistant.Body != nil {
		t.Errorf("a line that does not fit is %+v", assistant)
	}
	if result, err := turn.Result(deadline(t)); err != nil || result.Result != "you said strange" {
		t.Error(result, err)
	}
	// no json, [1], two types, {}, two control lines
	if n := s.Skipped(); n != 7 {
		t.Errorf("%d lines were skipped", n)
	}
	for l, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		if l.Subtype == "answered" {
			if !strings.Contains(string(l.Raw), `"request_id":"z"`) || !strings.Contains(string(l.Raw), `"error_code":"unsupported_request"`) {
				t.Errorf("answer %s", l.Raw)
			}
			break
		}
	}
}

// A program that neither replays messages nor names them in results: its result is
// that of the oldest message, but for one that it begot itself.
func TestOlderProgram(t *testing.T) {
	t.Parallel()
	s := start(t, options("old"))
	for _, text := range []string{"one", "two"} {
		turn := query(t, s, text)
		if list, err := types(t, turn); err != nil || !cmp.Equal(list, []string{"result"}) {
			t.Errorf("lines %q, error %v", list, err)
		}
		result, err := turn.Result(deadline(t))
		if err != nil || result.Result != "you said "+text {
			t.Error(result, err)
		}
	}
}

// The end of the program fails everybody who waits, and what is asked later, with
// its exit code and its last words, after the lines that came before.
func TestProgramDies(t *testing.T) {
	t.Parallel()
	var copied bytes.Buffer
	o := options("usual")
	o.Stderr = &copied
	s := start(t, o)
	all := s.Lines(deadline(t))
	waits := query(t, s, "die")
	list, err := types(t, waits)
	var ended *streamclient.ExitError
	if !errors.As(err, &ended) || !errors.Is(err, streamclient.ErrLost) || ended.Code != 7 || ended.Stderr != "dying\n" || !cmp.Equal(list, []string{"user"}) {
		t.Errorf("lines %q, error %v", list, err)
	}
	_, initErr := s.Init(deadline(t))
	_, resultErr := waits.Result(deadline(t))
	_, sendErr := s.Query(deadline(t), "more")
	var lineErr error
	for _, lineErr = range all {
	}
	for what, err := range map[string]error{
		"init": initErr, "result": resultErr, "send": sendErr, "control": s.SetModel(deadline(t), "m"), "lines": lineErr, "close": s.Close(deadline(t)),
	} {
		if ended = nil; !errors.As(err, &ended) || ended.Code != 7 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if copied.String() != "dying\n" {
		t.Errorf("stderr %q", copied.String())
	}
	if err := s.Control(deadline(t), "x", nil, nil); !errors.Is(err, streamclient.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

// Close ends a program that does not end by itself, and waits for a program's last
// turn; what waits then fails with ErrClosed.
func TestClose(t *testing.T) {
	t.Parallel()
	short := streamclient.Limits{Exit: 50 * time.Millisecond, Terminate: 50 * time.Millisecond}
	for role, code := range map[string]int{"usual": 0, "ignores the end": -1, "ignores everything": -1} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			o := options(role)
			if code != 0 {
				o.Limits = short
			}
			s := start(t, o)
			waits := make(chan error)
			go func() { waits <- s.Control(deadline(t), "mute", nil, nil) }()
			if result, err := query(t, s, "hello").Result(deadline(t)); err != nil || result.Result != "you said hello" {
				t.Error(result, err)
			}
			err := s.Close(deadline(t))
			var ended *streamclient.ExitError
			if code == 0 && err != nil || code != 0 && (!errors.As(err, &ended) || ended.Code != code) {
				t.Errorf("close: %v", err)
			}
			if again := s.Close(deadline(t)); !errors.Is(again, err) {
				t.Errorf("close again: %v", again)
			}
			if err := <-waits; !errors.Is(err, streamclient.ErrClosed) {
				t.Errorf("what waited: %v", err)
			}
			if _, err := s.Query(deadline(t), "more"); !errors.Is(err, streamclient.ErrClosed) {
				t.Errorf("query: %v", err)
			}
		})
	}
}

// The end of a context ends the waiting, and takes the request back (spec stream-json
// 2.4); the turn goes on.
func TestContexts(t *testing.T) {
	t.Parallel()
	s := start(t, options("usual"))
	all := s.Lines(deadline(t))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Control(short, "mute", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("control: %v", err)
	}
	for l, err := range all {
		if err != nil || l.Subtype != "cancelled" || string(l.Raw) != `{"type":"system","subtype":"cancelled","id":"req_2"}` {
			t.Errorf("line %s, error %v", l.Raw, err)
		}
		break
	}
	var lineErr error
	for _, lineErr = range s.Lines(short) {
	}
	_, initErr := s.Init(short)
	_, sendErr := s.Query(short, "x")
	for what, err := range map[string]error{"lines": lineErr, "init": initErr, "control": s.SetModel(short, "m")} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if sendErr != nil {
		t.Errorf("a message for which there is room: %v", sendErr)
	}
	turn := query(t, s, "hello")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range turn.Lines(over) {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if list, err := types(t, turn); err != nil || list[len(list)-1] != "result" {
		t.Errorf("lines %q, %v", list, err)
	}
}

// Consumers that do not read lose lines, and are told; results stand.
func TestMissed(t *testing.T) {
	t.Parallel()
	o := options("usual")
	o.Limits.Queue = 100_000
	s := start(t, o)
	all := s.Lines(deadline(t))
	flood := query(t, s, "flood")
	asked := query(t, s, "asked")
	if result, err := asked.Result(deadline(t)); err != nil || result.Result != "you said asked" {
		t.Error(result, err)
	}
	if _, err := types(t, asked); !errors.Is(err, streamclient.ErrMissed) {
		t.Errorf("lines behind Result: %v", err)
	}
	if list, err := types(t, flood); !errors.Is(err, streamclient.ErrMissed) || len(list) == 0 || len(list) > 100 {
		t.Errorf("%d lines, %v", len(list), err)
	}
	if result, err := flood.Result(deadline(t)); err != nil || result.Result != "you said flood" {
		t.Error(result, err)
	}
	var missed error
	for _, missed = range all {
	}
	if !errors.Is(missed, streamclient.ErrMissed) {
		t.Errorf("all lines: %v", missed)
	}
}

// A line that is too long, a result and answers that do not fit fail those whom they
// may concern; the session goes on.
func TestBrokenProtocol(t *testing.T) {
	t.Parallel()
	o := options("usual")
	o.Limits.Line = 64 << 10
	s := start(t, o)
	for _, text := range []string{"long", "bad result"} {
		if _, err := query(t, s, text).Result(deadline(t)); !errors.Is(err, streamclient.ErrProtocol) {
			t.Errorf("%s: %v", text, err)
		}
	}
	var into struct{ A int }
	for _, subtype := range []string{"shapeless", "misfit"} {
		if err := s.Control(deadline(t), subtype, nil, &into); !errors.Is(err, streamclient.ErrProtocol) {
			t.Errorf("%s: %v", subtype, err)
		}
	}
	for name, fields := range map[string]any{"no object": 7, "no json": func() {}} {
		if err := s.Control(deadline(t), "x", fields, nil); err == nil {
			t.Errorf("%s was sent", name)
		}
	}
	if result, err := query(t, s, "hello").Result(deadline(t)); err != nil || result.Result != "you said hello" {
		t.Error(result, err)
	}
}

// A program that closes its output is as good as gone, and Close sees it out.
func TestOutputCloses(t *testing.T) {
	t.Parallel()
	s := start(t, options("usual"))
	if _, err := query(t, s, "close").Result(deadline(t)); !errors.Is(err, streamclient.ErrLost) || errors.As(err, new(*streamclient.ExitError)) {
		t.Errorf("result: %v", err)
	}
	if err := s.Close(deadline(t)); err != nil {
		t.Errorf("close: %v", err)
	}
}

// Of very many questions at a time some are refused and all are answered.
func TestManyQuestions(t *testing.T) {
	t.Parallel()
	const questions = 300
	release := make(chan struct{})
	var mu sync.Mutex
	waiting := 0
	o := options("usual")
	o.CanUseTool = func(ctx context.Context, _ streamjson.CanUseTool) (streamjson.Permission, error) {
		mu.Lock()
		waiting++
		mu.Unlock()
		<-release
		return streamclient.Allow(), nil
	}
	s := start(t, o)
	all := s.Lines(deadline(t))
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	var asking sync.WaitGroup
	asking.Go(func() { _ = s.Control(ctx, "ask many", map[string]any{"count": questions}, nil) })
	answered, refused := 0, 0
	for l, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		if l.Subtype != "answered" {
			continue
		}
		if answered++; strings.Contains(string(l.Raw), "too many questions") {
			refused++
		}
		if refused == questions-256 && answered == refused {
			close(release)
		}
		if answered == questions {
			break
		}
	}
	cancel()
	asking.Wait()
	mu.Lock()
	defer mu.Unlock()
	if waiting != 256 || refused != questions-256 {
		t.Errorf("%d were asked, %d refused", waiting, refused)
	}
}

// A uuid names one message at a time.
func TestSameUUID(t *testing.T) {
	t.Parallel()
	s := start(t, options("usual"))
	first, err := s.Send(deadline(t), streamclient.Message{Text: "hold", UUID: "u"})
	if err != nil || first.UUID() != "u" {
		t.Fatal(err)
	}
	if _, err = s.Send(deadline(t), streamclient.Message{Text: "more", UUID: "u"}); err == nil || !strings.Contains(err.Error(), "same uuid") {
		t.Errorf("a second one: %v", err)
	}
	if err := s.Close(deadline(t)); err != nil {
		t.Error(err)
	}
	if _, err := first.Result(deadline(t)); !errors.Is(err, streamclient.ErrClosed) {
		t.Error(err)
	}
}
