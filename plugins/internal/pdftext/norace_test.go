//go:build !race

package pdftext_test

// untilExhausted says that tests also read files which end only at the bound of the
// work.
const untilExhausted = true
