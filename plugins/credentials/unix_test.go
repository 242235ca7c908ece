//go:build unix

package credentials_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

func TestMode(t *testing.T) {
	for _, tc := range []struct {
		mode os.FileMode
		ok   bool
	}{{0o600, true}, {0o400, true}, {0o640, false}, {0o604, false}, {0o620, false}, {0o644, false}} {
		c, home := source(t, map[string]string{yamlFile: "TEST_KEY: value"})
		path := filepath.Join(home, yamlFile)
		if err := os.Chmod(path, tc.mode); err != nil {
			t.Fatal(err)
		}
		s, err := c.Lookup(context.Background(), "TEST_KEY")
		if tc.ok {
			if err != nil || s.Reveal() != "value" {
				t.Errorf("mode %o gives %q, %v", tc.mode, s.Reveal(), err)
			}
			continue
		}
		want := path + " can be used by others than its owner (mode 0" + octal(tc.mode) + "); run: chmod 600 '" + path + "'"
		if err == nil || err.Error() != want {
			t.Errorf("mode %o gives %v, want %s", tc.mode, err, want)
		}
	}
}

func octal(m os.FileMode) string {
	return string([]byte{'0' + byte(m>>6&7), '0' + byte(m>>3&7), '0' + byte(m&7)})
}
