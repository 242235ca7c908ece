package approval_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"dsh/kernel"
	"dsh/kernel/approval"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// member is an approver or an arbiter that answers after a while.
type member struct {
	after  time.Duration
	answer approval.Answer
	err    error
	panics bool
	// ended is closed when a call has returned; cut says that its context had ended.
	ended chan struct{}
	cut   bool
}

func (m *member) Serves(id string) bool { return id == "s" }

func (m *member) Approve(ctx context.Context, _ approval.Request) (approval.Answer, error) {
	defer close(m.ended)
	if m.panics {
		panic("no")
	}
	select {
	case <-time.After(m.after):
		return m.answer, m.err
	case <-ctx.Done():
		m.cut = true
		return approval.Answer{Outcome: approval.Cancelled}, nil
	}
}

// TestApprove: approver and arbiters hear of a question at the same time, the
// first that settles it wins, and nobody is left at it (spec stream-json 6.5 rule
// 3).
func TestApprove(t *testing.T) {
	const soon, late = time.Second, time.Hour
	says := func(after time.Duration, o approval.Outcome, text string) *member {
		return &member{after: after, answer: approval.Answer{Outcome: o, Message: text}}
	}
	fails := func(after time.Duration) *member { return &member{after: after, err: errors.New("lost")} }
	none := func(after time.Duration) *member { return says(after, "", "") }
	for _, tc := range []struct {
		name     string
		approver *member
		arbiters []*member
		want     approval.Answer
		err      string
		took     time.Duration
		// cut are those whose context ended: the approver is 0, arbiters count from 1.
		cut []int
	}{
		{name: "nobody", want: approval.Answer{Outcome: approval.Unavailable}},
		{name: "approver alone", approver: says(soon, approval.Rejected, "no"), want: approval.Answer{Outcome: approval.Rejected, Message: "no"}, took: soon},
		{name: "approver alone fails", approver: fails(soon), err: "lost", took: soon},
		{name: "arbiter first", approver: says(late, approval.AllowedOnce, ""), arbiters: []*member{says(soon, approval.Rejected, "hook")},
			want: approval.Answer{Outcome: approval.Rejected, Message: "hook"}, took: soon, cut: []int{0}},
		{name: "approver first", approver: says(soon, approval.AllowedOnce, "a"), arbiters: []*member{says(late, approval.Rejected, "hook")},
			want: approval.Answer{Outcome: approval.AllowedOnce, Message: "a"}, took: soon, cut: []int{1}},
		{name: "no opinion", approver: says(late, approval.AllowedOnce, "a"), arbiters: []*member{none(soon)},
			want: approval.Answer{Outcome: approval.AllowedOnce, Message: "a"}, took: late},
		{name: "second arbiter", arbiters: []*member{none(soon), says(2*soon, approval.AllowedOnce, "b"), says(late, approval.Rejected, "c")},
			want: approval.Answer{Outcome: approval.AllowedOnce, Message: "b"}, took: 2 * soon, cut: []int{3}},
		{name: "arbiters without an opinion", arbiters: []*member{none(soon), fails(2 * soon)}, want: approval.Answer{Outcome: approval.Unavailable}, took: 2 * soon},
		{name: "arbiter mends a failure", approver: fails(soon), arbiters: []*member{says(late, approval.AllowedOnce, "hook")},
			want: approval.Answer{Outcome: approval.AllowedOnce, Message: "hook"}, took: late},
		{name: "nobody mends a failure", approver: fails(soon), arbiters: []*member{none(late)}, err: "lost", took: late},
		{name: "arbiter stands in", approver: says(soon, approval.Unavailable, "gone"), arbiters: []*member{says(late, approval.Rejected, "hook")},
			want: approval.Answer{Outcome: approval.Rejected, Message: "hook"}, took: late},
		{name: "unavailable in its own words", approver: says(soon, approval.Unavailable, "gone"), arbiters: []*member{says(soon, approval.Unavailable, "not me")},
			want: approval.Answer{Outcome: approval.Unavailable, Message: "gone"}, took: soon},
		{name: "arbiter panics", approver: says(soon, approval.AllowedOnce, "a"), arbiters: []*member{{panics: true}},
			want: approval.Answer{Outcome: approval.AllowedOnce, Message: "a"}, took: soon},
		{name: "approver panics", approver: &member{panics: true}, arbiters: []*member{none(soon)}, err: "panic: no", took: soon},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owner := kernel.NewOwner(context.Background(), "test")
				defer func() {
					if err := owner.Close(context.Background()); err != nil {
						t.Error(err)
					}
				}()
				desk := approval.NewDesk()
				all := append([]*member{tc.approver}, tc.arbiters...)
				for i, m := range all {
					if m == nil {
						continue
					}
					m.ended = make(chan struct{})
					put := desk.Arbitrate
					if i == 0 {
						put = desk.Register
					}
					if err := put(owner, "m", m); err != nil {
						t.Fatal(err)
					}
				}
				if got := desk.Arbitrates("s"); got != (len(tc.arbiters) > 0) || desk.Arbitrates("other") {
					t.Errorf("arbitrates: %v", got)
				}
				begun := time.Now()
				got, err := desk.Approve(t.Context(), approval.Request{SessionID: "s"})
				if took := time.Since(begun); took != tc.took {
					t.Errorf("it took %v, want %v", took, tc.took)
				}
				if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				var cut []int
				for i, m := range all {
					if m == nil {
						continue
					}
					select {
					case <-m.ended:
					default:
						t.Errorf("member %d is still at it", i)
					}
					if m.cut {
						cut = append(cut, i)
					}
				}
				if diff := cmp.Diff(tc.cut, cut); diff != "" {
					t.Errorf("cut off (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestApproveEnds: a question whose call is cut off ends at once, whoever is at it
// (case B20).
func TestApproveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := kernel.NewOwner(context.Background(), "test")
		desk := approval.NewDesk()
		approver := &member{after: time.Hour, ended: make(chan struct{})}
		arbiter := &member{after: time.Hour, ended: make(chan struct{})}
		if err := errors.Join(desk.Register(owner, "a", approver), desk.Arbitrate(owner, "b", arbiter)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		if _, err := desk.Approve(ctx, approval.Request{SessionID: "s"}); time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if !approver.cut || !arbiter.cut {
			t.Error("somebody was not told")
		}
		// Nobody is asked who is gone.
		if err := owner.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got, err := desk.Approve(t.Context(), approval.Request{SessionID: "s"}); got.Outcome != approval.Unavailable || err != nil {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}
