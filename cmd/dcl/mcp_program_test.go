package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"dsh/sdkproto/wirejson"
)

// mcpProgram is the name of the MCP server that TestMain makes of the test binary;
// its argument is how it behaves. logVariable names the folder of its notes.
const (
	mcpProgram  = "dcl-test-mcp"
	logVariable = "DCL_TEST_LOG"
)

func serveMCP() {
	switch os.Args[1] {
	case "mute": // reads and never writes (case B32)
		_, _ = io.Copy(io.Discard, os.Stdin)
		time.Sleep(time.Hour)
	case "exit": // says why and goes (case B32)
		fmt.Fprintln(os.Stderr, "no database here")
		os.Exit(3)
	case "slow": // takes its time (case B33)
		time.Sleep(400 * time.Millisecond)
		fallthrough
	default:
		_ = mcpByTheBook().Run(context.Background(), &sdk.StdioTransport{})
	}
}

// noted appends a line to a file of the server's notes.
func noted(name, line string) {
	f, err := os.OpenFile(filepath.Join(os.Getenv(logVariable), name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}

type textIn struct {
	Text string `json:"text,omitzero"`
}

// mcpByTheBook is a server on the SDK's own server side, whose tools come one a page.
func mcpByTheBook() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "book", Version: "1.2"}, &sdk.ServerOptions{PageSize: 1})
	text := func(t string) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: t}}}, nil, nil
	}
	sdk.AddTool(s, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, in textIn) (*sdk.CallToolResult, any, error) {
		return text("echo " + in.Text)
	})
	sdk.AddTool(s, &sdk.Tool{Name: "transfer"}, func(context.Context, *sdk.CallToolRequest, textIn) (*sdk.CallToolResult, any, error) {
		noted("ledger", "paid")
		os.Exit(7)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "grow"}, func(_ context.Context, _ *sdk.CallToolRequest, in textIn) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(s, &sdk.Tool{Name: in.Text}, func(context.Context, *sdk.CallToolRequest, textIn) (*sdk.CallToolResult, any, error) {
			return text("grown")
		})
		return text("added")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "ask"}, func(ctx context.Context, r *sdk.CallToolRequest, _ textIn) (*sdk.CallToolResult, any, error) {
		res, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Which one?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"pick":{"type":"string"}}}`)})
		if err != nil {
			return text("failed " + err.Error())
		}
		return text(fmt.Sprint(res.Action, " ", res.Content["pick"]))
	})
	type question struct {
		ToolName  string         `json:"tool_name"`
		Input     map[string]any `json:"input"`
		ToolUseID string         `json:"tool_use_id"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "approve"}, func(_ context.Context, _ *sdk.CallToolRequest, in question) (*sdk.CallToolResult, any, error) {
		said, err := wirejson.Marshal(in)
		if err != nil {
			return nil, nil, err
		}
		noted("questions", string(said))
		command, _ := in.Input["command"].(string)
		switch name := strings.TrimPrefix(command, "touch "); name {
		case "changed":
			return text(`{"behavior":"allow","updatedInput":{"command":"touch instead"}}`)
		case "denied":
			return text(`{"behavior":"deny","message":"the tool says no"}`)
		case "junk":
			return text("yes")
		case "shout":
			return text(`{"behavior":"ALLOW"}`)
		case "twice":
			return text(`{"behavior":"deny","behavior":"allow"}`)
		case "failed":
			return nil, nil, fmt.Errorf("the approver is ill")
		case "remembered":
			return text(`{"behavior":"allow","updatedPermissions":[{"type":"addRules","behavior":"allow","destination":"session","rules":[{"toolName":"Bash","ruleContent":"touch again"}]}]}`)
		}
		return text(`{"behavior":"allow"}`)
	})
	return s
}

// serving gives --mcp-config for servers of the test binary: names and modes.
func serving(modes map[string]string) []string {
	servers := object{}
	for name, mode := range modes {
		servers[name] = object{"command": mcpProgram, "args": []string{mode}}
	}
	return []string{"--mcp-config", encode(object{"mcpServers": servers})}
}
