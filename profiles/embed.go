// Package profiles holds the profiles that are built into the binary. cmd hands
// them to the kernel (decision D27).
package profiles

import "embed"

// FS has one NAME.yaml at its root for each profile.
//
//go:embed *.yaml
var FS embed.FS
