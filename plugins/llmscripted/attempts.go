package llmscripted

import (
	"container/list"
	"sync"

	"dsh/kernel/llm"
)

// maxRequests bounds the requests whose attempts are counted; beyond it the one
// that has been quiet for longest starts anew.
const maxRequests = 10_000

// attempts counts how often the present request of each session has been made.
// The zero value is ready. A session is forgotten when it is answered, and
// counts from one again when it makes another request.
type attempts struct {
	mu       sync.Mutex
	sessions map[string]*list.Element
	order    list.List // of *request, the latest first
}

type request struct {
	session string
	// last and length say where in the session the request is made: the retries
	// of a request have the same history.
	last   string
	length int
	count  int
}

// begin gives the number of this attempt, from 1.
func (a *attempts) begin(req llm.Request) int {
	now := request{session: req.SessionID, length: len(req.Messages), count: 1}
	if now.length > 0 {
		now.last = req.Messages[now.length-1].ID
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if e, ok := a.sessions[now.session]; ok {
		r := e.Value.(*request)
		if r.last == now.last && r.length == now.length {
			now.count = r.count + 1
		}
		*r = now
		a.order.MoveToFront(e)
		return now.count
	}
	if a.sessions == nil {
		a.sessions = map[string]*list.Element{}
	}
	if a.order.Len() >= maxRequests {
		a.drop(a.order.Back())
	}
	a.sessions[now.session] = a.order.PushFront(&now)
	return 1
}

// end forgets a session whose request was answered.
func (a *attempts) end(session string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e, ok := a.sessions[session]; ok {
		a.drop(e)
	}
}

func (a *attempts) drop(e *list.Element) {
	delete(a.sessions, a.order.Remove(e).(*request).session)
}
