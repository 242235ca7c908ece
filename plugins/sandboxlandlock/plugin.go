// Package sandboxlandlock confines programs with Landlock, the Linux kernel's
// means for a process to give up rights of its own.
//
// Landlock binds a thread and what the thread starts. So a goroutine takes a
// thread for itself, gives the thread's rights up, starts the program from it,
// and ends without giving it back, upon which the runtime throws the thread
// away. The Go runtime makes new threads from one that is not bound, so nothing
// else of this process loses a right. A helper that binds itself and then
// becomes the program would cost a start of this binary for each command, would
// have to find this binary, and would have a voice and an exit code of its own,
// which a command could imitate (case B102).
//
// What holds: outside of the folders given, no file is created, written, cut
// short, moved, linked or removed, and no file system is mounted; the program
// gains no rights from set-user-id files such as sudo; and it cannot attach to
// programs outside. What Landlock has no means for: the mode, owner, times and
// attributes of a file outside, which its owner can change; signals to other
// programs of the same user, which commands need for the servers that they left
// running; and what a service outside, such as that of containers, does for
// somebody who may talk to its socket.
//
// The network is closed by a filter of system calls (seccomp), bound in the same
// way, under which sockets are made for this machine only. Landlock's own rights
// would leave UDP open and TCP, too, for whoever asks for it by the name of
// MPTCP, as each listener of a Go program does.
//
// Namespaces by `bwrap` are not used: they are not everywhere, and change what
// a command sees. Other systems than Linux confine nothing, and say so.
package sandboxlandlock

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/process"
)

// Plugin is the row type "sandbox-landlock".
var Plugin = kernel.Define("sandbox-landlock", "Confines the programs that are started, on Linux.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private),
			fx.Provide(func(s *Sandbox) process.Confiner { return s }))
	}, kernel.Provides[process.Confiner]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
}
