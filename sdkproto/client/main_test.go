package client_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(serverVariable); role != "" {
		os.Exit(serveProcess(role))
	}
	goleak.VerifyTestMain(m)
}
