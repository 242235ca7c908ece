package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// place is what processes of one test share that follow one another: a home, a
// working directory and a model script.
type place struct {
	root, home, ws, model string
	started               int
}

func newPlace(t *testing.T, model string) *place {
	t.Helper()
	root := t.TempDir()
	at := &place{root: root, home: filepath.Join(root, "home"), ws: filepath.Join(root, "ws"), model: filepath.Join(root, "model.yaml")}
	for _, dir := range []string{at.home, at.ws} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at.model, []byte(model), 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

// start begins a conversation with dsh-probe, behind the handshake.
func (at *place) start(t *testing.T, env ...string) *peer {
	t.Helper()
	at.started++
	env = append(env, "PATH="+os.Getenv("PATH"), "HOME=/no-home", "DSH_HOME="+at.home, "DSH_SCRIPT="+at.model)
	p, err := startPeer("dsh-probe", nil, env, at.ws, filepath.Join(at.root, fmt.Sprintf("stderr.%d", at.started)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.abandon)
	if err := p.send(initializeFrame(at.ws, "recorded")); err != nil {
		t.Fatal(err)
	}
	if err := wantAnswer(p, "init", map[string]any{"result": map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	return p
}

// stored is the file of a session whose id needs no encoding.
func (at *place) stored(session string) string {
	return filepath.Join(at.home, "sessions.d", session+".jsonl")
}
