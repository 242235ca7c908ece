package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"dsh/kernel"
	"dsh/kernel/process/group"
	"dsh/kernel/tool"
)

// serveMode is a server process.
func serveMode(mode string) {
	mode, rest, _ := strings.Cut(mode, ":")
	switch mode {
	case "good":
		_ = goodServer().Run(context.Background(), &sdk.StdioTransport{})
	case "mute": // reads and never writes (case B32)
		fmt.Fprintln(os.Stderr, "thinking")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "exit": // says why and goes (case B32)
		count("starts")
		fmt.Fprintln(os.Stderr, "no database here", os.Getenv("MCP_TEST_TOKEN"))
		os.Exit(3)
	case "stubborn": // good, and ignores the end of its input and TERM
		signal.Ignore(syscall.SIGTERM)
		_ = goodServer().Run(context.Background(), &sdk.StdioTransport{})
		time.Sleep(time.Hour)
	case "launcher": // forks the server, which forks one more (case B76)
		exe, _ := os.Executable()
		child := exec.Command(exe)
		child.Env = append(os.Environ(), serverVariable+"=forking:"+rest)
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		_ = child.Run()
	case "forking": // leaves a child behind, in its group or a session of its own
		exe, _ := os.Executable()
		child := exec.Command(exe)
		child.Env = append(os.Environ(), serverVariable+"=sleeping")
		child.SysProcAttr = &syscall.SysProcAttr{}
		if rest == "apart" {
			child.SysProcAttr = group.Apart()
		}
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		_ = goodServer().Run(context.Background(), &sdk.StdioTransport{})
	case "sleeping":
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	case "harness": // a harness with one server, to be killed
		serveHarness(rest)
	default:
		rawModes[mode](rest)
	}
}

func count(name string) {
	if os.Getenv(dirVariable) == "" {
		return
	}
	f, err := os.OpenFile(filepath.Join(os.Getenv(dirVariable), name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintln(f, os.Getpid())
}

type echoIn struct {
	Text string `json:"text"`
}

// goodServer is a server by the book, on the SDK's own server side.
func goodServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "good", Version: "1.2"}, &sdk.ServerOptions{Instructions: "Echo before you leap.", Logger: slog.New(slog.DiscardHandler)})
	text := func(t string) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: t}}}, nil, nil
	}
	no := false
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Echoes.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
			return text("echo " + in.Text)
		})
	sdk.AddTool(s, &sdk.Tool{Name: "env", Annotations: &sdk.ToolAnnotations{DestructiveHint: &no}},
		func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
			v, ok := os.LookupEnv(in.Text)
			return text(fmt.Sprintf("%s %v", v, ok))
		})
	sdk.AddTool(s, &sdk.Tool{Name: "slow"}, func(ctx context.Context, r *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
		steps, _ := strconv.Atoi(in.Text)
		for i := range steps {
			if token := r.Params.GetProgressToken(); token != nil {
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Message: "step", Progress: float64(i + 1), Total: float64(steps)})
			}
			select {
			case <-ctx.Done():
				count("cancelled")
				return nil, nil, ctx.Err()
			case <-time.After(150 * time.Millisecond):
			}
		}
		return text("slept")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "transfer"}, func(_ context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		count("ledger")
		os.Exit(7)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "grow"}, func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
		sdk.AddTool(s, &sdk.Tool{Name: in.Text}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return text("grown")
		})
		return text("added")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "shrink"}, func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
		s.RemoveTools(in.Text)
		return text("removed")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "ask"}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		res, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Which one?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"pick":{"type":"string"}}}`)})
		if err != nil {
			return nil, nil, err
		}
		return text(fmt.Sprintf("%s %v", res.Action, res.Content["pick"]))
	})
	sdk.AddTool(s, &sdk.Tool{Name: "log"}, func(ctx context.Context, r *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, any, error) {
		//lint:ignore SA1019 it is what servers of older protocols do
		_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Data: in.Text})
		fmt.Fprintln(os.Stderr, "stderr "+in.Text)
		return text("logged")
	})
	s.AddResource(&sdk.Resource{URI: "test://readme", Name: "readme", MIMEType: "text/plain"}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: "text/plain", Text: "read me"}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "review", Description: "Reviews.", Arguments: []*sdk.PromptArgument{{Name: "file", Required: true}, {Name: "focus"}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{
				Text: fmt.Sprintf("review %s for %q", r.Params.Arguments["file"], r.Params.Arguments["focus"])}}}}, nil
		})
	return s
}

// wire is a server that writes its messages by hand.
type wire struct {
	mu  sync.Mutex
	out *bufio.Writer
	// list is the "tools" member of tools/list; result gives the result of a call,
	// "" for none.
	list   string
	result func(name string, arguments json.RawMessage, id string) string
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Cursor    string          `json:"cursor"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"params"`
}

func (w *wire) line(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.out.WriteString(text + "\n")
	_ = w.out.Flush()
}

func (w *wire) answer(id, result string) {
	w.line(`{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`)
}

const initialized = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"wire","version":"9"}}`

func (w *wire) serve(in io.Reader, handle func(m message) bool) {
	lines := bufio.NewReader(in)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text, &m) != nil {
			continue
		}
		if handle != nil && handle(m) {
			continue
		}
		switch m.Method {
		case "initialize":
			w.answer(string(m.ID), initialized)
		case "tools/list":
			w.answer(string(m.ID), `{"tools":`+w.list+`}`)
		case "tools/call":
			if r := w.result(m.Params.Name, m.Params.Arguments, string(m.ID)); r != "" {
				w.answer(string(m.ID), r)
			}
		default:
			if len(m.ID) > 0 {
				w.line(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32601,"message":"method not found"}}`)
			}
		}
	}
}

func onStdio(list string, result func(string, json.RawMessage, string) string) *wire {
	return &wire{out: bufio.NewWriter(os.Stdout), list: list, result: result}
}

// strange is text that breaks when it is cut or taken for lines.
const strange = "渐🚀é—한 \u2028 \u2029 \u0085 \v \f \ufeff"

func textResult(text string) string {
	data, _ := json.Marshal(text)
	return `{"content":[{"type":"text","text":` + string(data) + `}]}`
}

// named is a tool with nothing but a name.
func named(name string) string {
	data, _ := json.Marshal(name)
	return `{"name":` + string(data) + `,"inputSchema":{"type":"object"}}`
}

var rawModes = map[string]func(rest string){
	// fixed lists what is in a file and answers a call with what it was called by.
	"fixed": func(file string) {
		list, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		onStdio(string(list), func(name string, arguments json.RawMessage, _ string) string {
			return textResult(name + " " + string(arguments))
		}).serve(os.Stdin, nil)
	},
	// results answers each call with the result that is in a file of the tool's
	// name.
	"results": func(dir string) {
		onStdio(`[`+named("get")+`]`, func(_ string, arguments json.RawMessage, _ string) string {
			var a struct{ File string }
			_ = json.Unmarshal(arguments, &a)
			data, err := os.ReadFile(filepath.Join(dir, a.File))
			if err != nil {
				panic(err)
			}
			return string(data)
		}).serve(os.Stdin, nil)
	},
	// late takes its time for the list, which has two pages, and then a change.
	"late": func(string) {
		w := onStdio("", func(name string, _ json.RawMessage, _ string) string { return textResult("called " + name) })
		grown := false
		var mu sync.Mutex
		w.serve(os.Stdin, func(m message) bool {
			if m.Method != "tools/list" {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case m.Params.Cursor == "":
				time.Sleep(300 * time.Millisecond)
				w.answer(string(m.ID), `{"tools":[`+named("one")+`],"nextCursor":"p2"}`)
			case grown:
				w.answer(string(m.ID), `{"tools":[`+named("two")+`,`+named("three")+`]}`)
			default:
				w.answer(string(m.ID), `{"tools":[`+named("two")+`]}`)
				grown = true
				time.AfterFunc(300*time.Millisecond, func() { w.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`) })
			}
			return true
		})
	},
	// noisy prints what is no message, between and in front of messages.
	"noisy": func(string) {
		fmt.Print("Welcome!\r\n\ufeff\n{\"level\":\"info\"}\n42\n[]\nnull\n\x00\xff\xfe\n")
		w := onStdio(`[`+named("echo")+`]`, func(_ string, arguments json.RawMessage, id string) string {
			fmt.Print("progress: 50% ")
			fmt.Printf(`{"jsonrpc":"2.0","id":"%s","result":%s}`+"\r\n", id, textResult("noise "+string(arguments)))
			return ""
		})
		w.serve(os.Stdin, func(m message) bool {
			if m.Method == "initialize" {
				w.line("[" + `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + initialized + `}` + "]")
				return true
			}
			return false
		})
	},
	// flood sends notices without end, in front of it a line that is too long.
	"flood": func(string) {
		w := onStdio(`[`+named("echo")+`,`+named("huge")+`]`, nil)
		w.result = func(name string, _ json.RawMessage, id string) string {
			if name == "huge" {
				w.mu.Lock()
				defer w.mu.Unlock()
				fmt.Fprintf(w.out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, id)
				for range maxMessage/1024 + 1 {
					_, _ = w.out.WriteString(strings.Repeat("a", 1024))
				}
				_, _ = w.out.WriteString("\"}]}}\n")
				_ = w.out.Flush()
				return ""
			}
			return textResult("dry")
		}
		go func() {
			for i := 0; ; i++ {
				w.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 4096) + `"}}`)
				w.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				w.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"7","progress":1}}`)
				w.line(strings.Repeat("noise ", 100))
				fmt.Fprintln(os.Stderr, "stderr", i)
				if i > 2000 {
					time.Sleep(5 * time.Millisecond)
				}
			}
		}()
		w.serve(os.Stdin, nil)
	},
	// reverse answers 20 calls in reverse order, one of them never and some with
	// an error.
	"reverse": func(string) {
		w := onStdio(`[`+named("n")+`]`, nil)
		var waiting []message
		w.serve(os.Stdin, func(m message) bool {
			switch m.Method {
			case "tools/call":
				waiting = append(waiting, m)
				for i := len(waiting) - 1; len(waiting) == 20 && i >= 0; i-- {
					var a struct{ N int }
					_ = json.Unmarshal(waiting[i].Params.Arguments, &a)
					w.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"between"}}`)
					switch {
					case a.N == 13:
					case a.N%4 == 0:
						w.answer(string(waiting[i].ID), `{"isError":true,"content":[{"type":"text","text":"`+fmt.Sprint("bad ", a.N)+`"}]}`)
					default:
						w.answer(string(waiting[i].ID), textResult(fmt.Sprint("good ", a.N)))
					}
				}
			case "notifications/cancelled":
				count("cancelled")
			default:
				return false
			}
			return true
		})
	},
	// bytewise writes its answers byte by byte.
	"bytewise": func(string) {
		w := onStdio(`[`+named("echo")+`]`, nil)
		w.result = func(_ string, _ json.RawMessage, id string) string {
			for _, b := range []byte(`{"jsonrpc":"2.0","id":` + id + `,"result":` + textResult(strange) + "}\n") {
				_, _ = os.Stdout.Write([]byte{b})
			}
			return ""
		}
		w.serve(os.Stdin, nil)
	},
	// deaf takes no input any more once it was called.
	"deaf": func(string) {
		w := onStdio(`[`+named("echo")+`]`, nil)
		w.result = func(string, json.RawMessage, string) string { select {} }
		w.serve(os.Stdin, nil)
	},
	// modern refuses the old handshake.
	"modern": func(string) {
		w := onStdio(`[`+named("echo")+`]`, func(string, json.RawMessage, string) string { return textResult("modern") })
		w.serve(os.Stdin, func(m message) bool {
			switch m.Method {
			case "initialize":
				w.line(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32601,"message":"initialize is gone"}}`)
			case "server/discover":
				w.answer(string(m.ID), `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}`)
			default:
				return false
			}
			return true
		})
	},
}

// serveHarness is a harness that is killed while its servers run.
func serveHarness(modes string) {
	owner := kernel.NewOwner(context.Background(), "harness")
	log := slog.New(slog.DiscardHandler)
	ready := kernel.NewReady(owner, log)
	exe, _ := os.Executable()
	c := quick()
	c.Servers = map[string]Server{}
	for mode := range strings.SplitSeq(modes, ",") {
		c.Servers[mode] = Server{Command: exe, Env: map[string]string{serverVariable: mode}}
	}
	m := New(Params{
		Self:   kernel.Instance{Owner: owner, Log: log, Ready: ready, Root: kernel.NewRoot(owner)},
		Config: c, Tools: tool.NewRegistry(),
	})
	if err := m.register(); err != nil {
		panic(err)
	}
	_ = ready.Wait(context.Background())
	for _, s := range m.List() {
		fmt.Println(s.State)
	}
	select {}
}
