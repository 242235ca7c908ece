//go:build long

package main

// killPlan has every place there is: around each append and each sync.
func killPlan() []killSeries {
	return []killSeries{
		{"append", "before", 1, everywhere},
		{"append", "half", 1, everywhere},
		{"append", "after", 1, everywhere},
		{"sync", "before", 1, everywhere},
		{"sync", "after", 1, everywhere},
	}
}
