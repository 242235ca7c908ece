//go:build windows

package streamclient_test

import "os"

var terminateSignal = os.Kill
