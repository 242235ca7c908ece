package streamcmd

import (
	"bufio"
	"errors"
	"time"

	"github.com/google/uuid"

	"dsh/cmd/internal/streamflags"
	"dsh/kernel"
	wire "dsh/sdkproto/streamjson"
	"dsh/sdkproto/wirejson"
)

const (
	// firstLineLimit is how long a start that failed waits for the client's first
	// line.
	firstLineLimit = 5 * time.Second
	// maxReason bounds the reason that the client is given, in bytes.
	maxReason = 64 << 10
)

// unstarted tells a client why there is no session and gives the exit code. It
// waits for the client's first line and leaves it unanswered: a client that finds
// the pipe closed when it writes initialize never gets to see the reason (spec
// stream-json 3.8, F21, case B14).
func (s *Surface) unstarted(line *streamflags.Line, reason string) int {
	if !line.Stream() || line.DumpConfig {
		return kernel.ExitFailure
	}
	first := make(chan struct{})
	// Nobody can end a read of standard input; the process does.
	go func() {
		defer close(first)
		in := bufio.NewReader(s.Pair.In)
		for {
			_, err := in.ReadSlice('\n')
			if !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
		}
	}()
	timer := time.NewTimer(firstLineLimit)
	defer timer.Stop()
	select {
	case <-first:
	case <-timer.C:
	}
	id := line.SessionID
	if uuid.Validate(id) != nil {
		id = uuid.NewString()
	}
	data, err := wirejson.Marshal(&wire.Result{
		Head:    wire.Head{Type: "result", Subtype: "error_during_execution", SessionID: id, UUID: uuid.NewString()},
		IsError: true, Result: reason, Errors: []string{reason},
		Usage: wire.TurnUsage{ServiceTier: "standard"}, ModelUsage: map[string]wire.ModelUsage{}, PermissionDenials: []wire.Denial{},
	})
	if err == nil {
		_, err = s.Pair.Out.Write(append(data, '\n'))
	}
	if err != nil {
		s.Fail(err)
	}
	return kernel.ExitFailure
}
