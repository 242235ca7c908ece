package toollsp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dsh/kernel/process/group"
)

// The test binary is its own language server: with scriptVariable set it serves by
// that script instead of running tests.
const (
	scriptVariable  = "LSP_TEST_SCRIPT"
	sleeperVariable = "LSP_TEST_SLEEPER"
)

// script says how the server of a test behaves.
type script struct {
	// Log is the file into which the server writes all messages that it gets, one a
	// line.
	Log string
	// Answers and Errors are what it answers, by method; null by default.
	Answers map[string]json.RawMessage
	Errors  map[string]json.RawMessage
	// Hang are methods that it never answers, Crash those with which it dies, once if
	// Once names a file that does not exist yet.
	Hang, Crash []string
	Once        string
	// Slow is how long it takes to answer initialize, in milliseconds.
	Slow int
	// Noise has it print text that is no message; Words go to standard
	// error, many times.
	Noise bool
	Words string
	// IDs is what it does to ids: "text" makes texts of them, "strange" answers
	// requests first that nobody has made.
	IDs string
	// Huge is the method that it answers at a length that nobody can want.
	Huge string
	// Deaf has it read nothing after initialize.
	Deaf bool
	// Asks are requests and notices that it sends after initialized.
	Asks []json.RawMessage
	// Busy is how long it says that it is busy, with a short pause in the middle, and
	// answers null, in milliseconds.
	Busy int
	// Publish are the diagnostics that it sends with each text of a document, after
	// PublishAfter milliseconds; Unversioned leaves the version away.
	Publish      json.RawMessage
	PublishAfter int
	// Early are diagnostics that it sends at once, before it knows all; Old has it give
	// them the version before.
	Early       json.RawMessage
	Old         bool
	Unversioned bool
	// Modified is how often it says that something has changed before it answers.
	Modified int
	// Leave has it start a program that outlives it.
	Leave string
	// Stay has it ignore the request to end.
	Stay bool
}

type wireMessage struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// serve is the server. It speaks the wire by itself, so that it proves what is sent.
func serve(text string) {
	var sc script
	if err := json.Unmarshal([]byte(text), &sc); err != nil {
		panic(err)
	}
	log, err := os.OpenFile(sc.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	note := func(v any) {
		line, _ := json.Marshal(v)
		log.Write(append(line, '\n'))
	}
	note(map[string]any{"started": os.Getpid(), "env": os.Environ()})
	if sc.Leave != "" {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, scriptVariable) }), sleeperVariable+"=1")
		cmd.SysProcAttr = group.Apart()
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		os.WriteFile(sc.Leave, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
	}
	var sending sync.Mutex
	write := func(text string) {
		sending.Lock()
		defer sending.Unlock()
		if sc.Noise {
			io.WriteString(os.Stdout, "loading \u2026\n\n\tdone {\"id\":1}")
		}
		fmt.Fprintf(os.Stdout, "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		if sc.Noise {
			text := "not a message"
			fmt.Fprintf(os.Stdout, "Content-Length: %d\r\n\r\n%s", len(text), text)
		}
	}
	send := func(v any) {
		line, _ := json.Marshal(v)
		write(string(line))
	}
	fmt.Fprint(os.Stderr, strings.Repeat(sc.Words, 100_000))
	busy := time.Now().Add(time.Hour)
	if sc.Busy == 0 {
		busy = time.Time{}
	}
	in := bufio.NewReader(os.Stdin)
	for {
		length := 0
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				if sc.Stay {
					time.Sleep(time.Hour)
				}
				return
			}
			line = strings.TrimSuffix(line, "\r\n")
			if line == "" {
				break
			}
			if n, ok := strings.CutPrefix(line, "Content-Length: "); ok {
				length, _ = strconv.Atoi(n)
			}
		}
		data := make([]byte, length)
		if _, err := io.ReadFull(in, data); err != nil {
			return
		}
		var m wireMessage
		if err := json.Unmarshal(data, &m); err != nil {
			panic(err)
		}
		note(json.RawMessage(data))
		reply := func(result json.RawMessage) {
			if result == nil {
				result = json.RawMessage("null")
			}
			id := m.ID
			switch sc.IDs {
			case "text":
				id = json.RawMessage(strconv.Quote(string(m.ID)))
			case "strange":
				for _, strange := range []string{`987654`, `"none of yours"`, `-1`, `1.5`, `{}`, `null`} {
					write(`{"jsonrpc":"2.0","id":` + strange + `,"result":{"contents":"wrong"}}`)
				}
			}
			send(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
		}
		if slices.Contains(sc.Crash, m.Method) {
			if _, err := os.Stat(sc.Once); sc.Once == "" || err != nil {
				os.WriteFile(sc.Once, nil, 0o600)
				fmt.Fprintln(os.Stderr, "fatal: out of ideas")
				os.Exit(3)
			}
		}
		switch {
		case m.Method == "exit":
			if !sc.Stay {
				return
			}
		case m.Method == "initialized":
			for _, ask := range sc.Asks {
				write(string(ask))
			}
			if sc.Busy > 0 {
				part := time.Duration(sc.Busy) * time.Millisecond / 2
				busy = time.Now().Add(2*part + 100*time.Millisecond)
				progress := func(value string) {
					write(`{"jsonrpc":"2.0","method":"$/progress","params":{"token":"t","value":` + value + `}}`)
				}
				progress(`{"kind":"begin","title":"Loading","message":"packages","percentage":10}`)
				time.AfterFunc(part, func() { progress(`{"kind":"end"}`) })
				time.AfterFunc(part+100*time.Millisecond, func() { progress(`{"kind":"begin","title":"Indexing"}`) })
				time.AfterFunc(time.Until(busy), func() { progress(`{"kind":"end"}`) })
			}
			if sc.Deaf {
				time.Sleep(time.Hour)
			}
		case m.Method == "textDocument/didOpen" || m.Method == "textDocument/didChange":
			if sc.Publish != nil && string(sc.Publish) != "null" {
				var p struct{ TextDocument lspDocument }
				json.Unmarshal(m.Params, &p)
				params := map[string]any{"uri": p.TextDocument.URI, "version": p.TextDocument.Version, "diagnostics": sc.Publish}
				if sc.Unversioned {
					delete(params, "version")
				}
				if len(sc.Early) > len("null") {
					early := map[string]any{"uri": p.TextDocument.URI, "version": p.TextDocument.Version, "diagnostics": sc.Early}
					if sc.Old {
						early["version"] = p.TextDocument.Version - 1
					}
					send(map[string]any{"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": early})
				}
				time.AfterFunc(time.Duration(sc.PublishAfter)*time.Millisecond, func() {
					send(map[string]any{"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params})
				})
			}
		case m.ID == nil || m.Method == "" || slices.Contains(sc.Hang, m.Method):
		case m.Method == "initialize":
			time.Sleep(time.Duration(sc.Slow) * time.Millisecond)
			result := sc.Answers["initialize"]
			if result == nil {
				result = json.RawMessage(`{"capabilities":{}}`)
			}
			reply(result)
		case sc.Huge == m.Method:
			write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"contents":"` + strings.Repeat("x", maxMessage) + `"}}`)
		case sc.Modified > 0 && strings.HasPrefix(m.Method, "textDocument/"):
			sc.Modified--
			send(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": codeContentModified, "message": "content modified"}})
		case sc.Errors[m.Method] != nil:
			send(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": sc.Errors[m.Method]})
		case time.Now().Before(busy):
			reply(nil)
		default:
			reply(sc.Answers[m.Method])
		}
	}
}

// got reads what a server has been sent, the latest last.
func got(file string) []wireMessage {
	data, _ := os.ReadFile(filepath.Clean(file))
	var all []wireMessage
	for line := range strings.Lines(string(data)) {
		var m wireMessage
		if json.Unmarshal([]byte(line), &m) == nil && (m.Method != "" || m.ID != nil) {
			all = append(all, m)
		}
	}
	return all
}
