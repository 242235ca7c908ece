//go:build race

package pdftext_test

// untilExhausted says that tests also read files which end only at the bound of the
// work. The race detector makes minutes of them, and there is one goroutine.
const untilExhausted = false
