//go:build windows

package client_test

import "syscall"

const terminateSignal = syscall.SIGTERM
