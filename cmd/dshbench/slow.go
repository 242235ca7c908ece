package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// mcpRole makes this program an MCP server that takes slowStart to connect.
	mcpRole = "mcp"
	// slowStart is how long one of the slow servers or plugins takes.
	slowStart = 300 * time.Millisecond
)

// serveMCP is an MCP server with one tool.
func serveMCP(in io.Reader, out io.Writer) int {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return 1
		}
		result := ""
		switch m.Method {
		case "initialize":
			time.Sleep(slowStart)
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"slow","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"wait","inputSchema":{"type":"object"}}]}`
		}
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		switch {
		case len(m.ID) == 0:
			continue
		case result == "":
			answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return 1
		}
	}
}

type object = map[string]any

// startMCP measures the start with n slow MCP servers.
func startMCP(n int) func(*target) ([]float64, error) {
	return func(t *target) ([]float64, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		servers := object{}
		for i := range n {
			servers[fmt.Sprint("s", i)] = object{"command": self, "env": object{roleVariable: mcpRole}, "required": true}
		}
		return t.startWith(object{"mcp": object{"config": object{"servers": servers}}})
	}
}

// startPlugins measures the start with n slow plugins.
func startPlugins(n int) func(*target) ([]float64, error) {
	return func(t *target) ([]float64, error) {
		program := filepath.Join(t.work, "slowplugin")
		if _, err := os.Stat(program); err != nil {
			build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "dsh/cmd/dshbench/slowplugin")
			build.Stderr = os.Stderr
			if err := build.Run(); err != nil {
				return nil, fmt.Errorf("build the slow plugin: %w", err)
			}
		}
		rows := object{}
		for i := range n {
			rows[fmt.Sprint("slow", i)] = object{"use": program, "required": true, "config": object{"delayMs": slowStart.Milliseconds()}}
		}
		return t.startWith(rows)
	}
}

// startWith measures the start with more rows, all of which must be ready.
func (t *target) startWith(rows object) ([]float64, error) {
	data, err := json.Marshal(object{"plugins": rows})
	if err != nil {
		return nil, err
	}
	patch := filepath.Join(t.work, "slow.json")
	if err := os.WriteFile(patch, data, 0o600); err != nil {
		return nil, err
	}
	with := *t
	with.command = append(t.command[:len(t.command):len(t.command)], "--patch", patch)
	values, err := start(&with)
	if err == nil && values[0] < ms(slowStart) {
		err = fmt.Errorf("initialize was answered after %.0f ms, before anything could be ready", values[0])
	}
	if err != nil {
		return nil, err
	}
	return values[:1], nil
}
