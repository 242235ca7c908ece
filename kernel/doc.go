// Package kernel composes plugins into one process and unwinds them again. It
// knows no model, no tool and no protocol: those are seams (the packages below
// this one) and plugins.
//
// A profile's rows become fx modules in profile order. Everything registered at
// run time hangs on an Owner. Load tasks run behind the Ready barrier. Root is
// the life of the process: it comes to rest in the order of registration and is
// released in reverse.
package kernel
