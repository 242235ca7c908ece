package toolsearch

import (
	"io"

	"dsh/plugins/internal/textfile"
)

// openWalked opens a regular file that a walk has met.
func openWalked(path string) (io.ReadCloser, int64, error) {
	f, info, err := textfile.Open(path)
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}
