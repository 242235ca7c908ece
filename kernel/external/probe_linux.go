package external

func marked(marker string) ([]int, bool) { return findMarked(marker), true }
