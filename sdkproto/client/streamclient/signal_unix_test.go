//go:build unix

package streamclient_test

import "syscall"

const terminateSignal = syscall.SIGTERM
