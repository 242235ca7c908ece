package streamjson

import (
	"slices"

	"dsh/sdkproto/streamjson"
)

// queue holds the user messages that wait for their turn (spec stream-json 11.1).
type queue struct {
	list []*message
	// bytes is what the messages take on the wire.
	bytes int
}

// maxQueuedBytes bounds the queue beside the number of its messages.
const maxQueuedBytes = 256 << 20

// full reports whether reading stops until a message is taken; brimming, whether
// nothing is taken at all any more. In between, messages are taken only while a
// question to the host waits for an answer that stands behind them.
func (q *queue) full(most int) bool { return len(q.list) >= most || q.bytes >= maxQueuedBytes }

func (q *queue) brimming(most int) bool {
	return len(q.list) >= 2*most || q.bytes >= 2*maxQueuedBytes
}

// push puts a message behind those of its priority and of higher ones.
func (q *queue) push(m *message) {
	at := len(q.list)
	for at > 0 && rank(q.list[at-1].priority) > rank(m.priority) {
		at--
	}
	q.list = slices.Insert(q.list, at, m)
	q.bytes += m.size
}

func rank(priority string) int {
	switch priority {
	case streamjson.PriorityNow:
		return 0
	case streamjson.PriorityLater:
		return 2
	}
	return 1
}

func (q *queue) pop() *message {
	m := q.list[0]
	q.list = slices.Delete(q.list, 0, 1)
	q.bytes -= m.size
	return m
}

// remove takes a message out by its uuid.
func (q *queue) remove(uuid string) bool {
	at := slices.IndexFunc(q.list, func(m *message) bool { return m.uuid == uuid })
	if at < 0 {
		return false
	}
	q.bytes -= q.list[at].size
	q.list = slices.Delete(q.list, at, at+1)
	return true
}

// uuids lists the messages that will have a result of their own.
func (q *queue) uuids() []string {
	list := make([]string, len(q.list))
	for i, m := range q.list {
		list[i] = m.uuid
	}
	return list
}
