//go:build unix

package streamjson_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(serveAsChild())
	}
	goleak.VerifyTestMain(m)
}
