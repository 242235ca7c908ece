package credentials_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/plugins/credentials"
)

// source gives the credentials of a data folder that holds the given files.
func source(t *testing.T, files map[string]string) (*credentials.Credentials, string) {
	t.Helper()
	home := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(home, name), text)
	}
	c, err := credentials.New(credentials.Params{Self: kernel.Instance{Home: home}})
	if err != nil {
		t.Fatal(err)
	}
	return c, home
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	yamlFile = ".credentials.yaml"
	dotenv   = ".env"
)

func TestOrder(t *testing.T) {
	both := map[string]string{yamlFile: "TEST_KEY: from-yaml", dotenv: "TEST_KEY=from-dotenv"}
	for _, tc := range []struct {
		name, env string
		files     map[string]string
		want      string
	}{
		{"environment first", "from-environment", both, "from-environment"},
		{"then the YAML file", "", both, "from-yaml"},
		{"a blank variable is none", "  ", both, "from-yaml"},
		{"then .env", "", map[string]string{dotenv: "TEST_KEY=from-dotenv"}, "from-dotenv"},
		{"a null is none", "", map[string]string{yamlFile: "TEST_KEY: ~", dotenv: "TEST_KEY=from-dotenv"}, "from-dotenv"},
		{"the environment needs no file", "from-environment", map[string]string{yamlFile: "no yaml"}, "from-environment"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("TEST_KEY", tc.env)
			c, _ := source(t, tc.files)
			s, err := c.Lookup(context.Background(), "TEST_KEY")
			if err != nil || s.Reveal() != tc.want {
				t.Fatalf("got %q, %v, want %q", s.Reveal(), err, tc.want)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	c, home := source(t, nil)
	_, err := c.Lookup(context.Background(), "TEST_ABSENT_KEY")
	var missing *credential.MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("got %v", err)
	}
	want := "the credential TEST_ABSENT_KEY is not set; set it in the environment, or in " +
		filepath.Join(home, yamlFile) + ", or in " + filepath.Join(home, dotenv)
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestUnusableValue(t *testing.T) {
	c, home := source(t, map[string]string{dotenv: "TEST_KEY=ключ-секрет"})
	_, err := c.Lookup(context.Background(), "TEST_KEY")
	var invalid *credential.InvalidError
	if !errors.As(err, &invalid) || invalid.Place != filepath.Join(home, dotenv) || strings.Contains(err.Error(), "секрет") {
		t.Errorf("got %v", err)
	}
}

// A changed file counts from the next look-up on.
func TestChangedFile(t *testing.T) {
	c, home := source(t, nil)
	for i, text := range []string{"TEST_KEY: one", "TEST_KEY: two", "", "TEST_KEY: 'three'"} {
		write(t, filepath.Join(home, yamlFile), text)
		s, err := c.Lookup(context.Background(), "TEST_KEY")
		if want := []string{"one", "two", "", "three"}[i]; s.Reveal() != want || (want == "") != (err != nil) {
			t.Errorf("%q gives %q, %v", text, s.Reveal(), err)
		}
	}
}

// The working directory has no say.
func TestWorkspaceIsNotRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, dotenv), "TEST_KEY=planted")
	write(t, filepath.Join(dir, yamlFile), "TEST_KEY: planted")
	t.Chdir(dir)
	c, _ := source(t, nil)
	if s, err := c.Lookup(context.Background(), "TEST_KEY"); err == nil {
		t.Errorf("the workspace gave %q", s.Reveal())
	}
}

func TestFileKinds(t *testing.T) {
	c, home := source(t, nil)
	if err := os.Mkdir(filepath.Join(home, yamlFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lookup(context.Background(), "TEST_KEY"); err == nil || !strings.Contains(err.Error(), "it is a directory") {
		t.Errorf("a folder gives %v", err)
	}
	c, home = source(t, nil)
	write(t, filepath.Join(home, dotenv), "# "+strings.Repeat("x", 2<<20))
	if _, err := c.Lookup(context.Background(), "TEST_KEY"); err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Errorf("a huge file gives %v", err)
	}
}
