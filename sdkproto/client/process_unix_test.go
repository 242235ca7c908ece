//go:build unix

package client_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"dsh/sdkproto/client"
)

const terminateSignal = syscall.SIGTERM

// TestCloseLadder: what the server does not do by itself is done to it.
func TestCloseLadder(t *testing.T) {
	quick := client.Limits{Shutdown: 100 * time.Millisecond, Exit: 100 * time.Millisecond, Terminate: 100 * time.Millisecond}
	patient := client.Limits{Exit: 100 * time.Millisecond, Terminate: 20 * time.Second}
	tests := []struct {
		role   string
		limits client.Limits
		status string // "" for a close without an error
	}{
		{"plain", client.Limits{}, ""},
		{"ends when told", patient, ""},
		{"ignores the end", patient, "signal: terminated"},
		{"ignores everything", quick, "signal: killed"},
	}
	for _, tt := range tests {
		t.Run(tt.role, func(t *testing.T) {
			o := child(tt.role)
			o.Limits = tt.limits
			c := start(t, o)
			err := c.Close(deadline(t))
			var exit *client.ExitError
			if tt.status == "" {
				if err != nil {
					t.Errorf("close: %v", err)
				}
			} else if !errors.As(err, &exit) || exit.Status != tt.status || exit.Code != -1 {
				t.Errorf("close: %v, want %s", err, tt.status)
			}
			if err := syscall.Kill(c.PID(), 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d: %v", c.PID(), err)
			}
		})
	}
}

// TestCloseAtOnce: an ended context leaves no time to the server.
func TestCloseAtOnce(t *testing.T) {
	c := start(t, child("ignores everything"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() { done <- c.Close(ctx) }()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "signal: killed") {
			t.Errorf("close: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("close waits")
	}
}

// TestProcessGroup: the server is in the group that the terminal's signals go
// to.
func TestProcessGroup(t *testing.T) {
	c := start(t, child("plain"))
	group, err := syscall.Getpgid(c.PID())
	if err != nil || group != syscall.Getpgrp() {
		t.Errorf("group %d, want %d; %v", group, syscall.Getpgrp(), err)
	}
}

// TestKilled: the news of a kill reaches a run.
func TestKilled(t *testing.T) {
	c := start(t, child("plain"))
	all := c.Notifications(t.Context())
	if err := syscall.Kill(c.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, err := names(all)
	var exit *client.ExitError
	if !errors.As(err, &exit) || exit.Code != -1 || exit.Status != "signal: killed" {
		t.Errorf("notifications: %v", err)
	}
}
