package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"dsh/cmd/internal/wiretest"
	"dsh/sdkproto/wirejson"
)

// update rewrites the conversations in testdata/stream with what the program does:
// go test ./cmd/dcl -run TestStream -update
var update = flag.Bool("update", false, "rewrite the conversations in testdata/stream")

// TestStream compares whole conversations with files, one for each kind of message
// (S021 to S031, S072; spec stream-json 3): what is sent and what comes is the
// section conversation of a file, the section model.yaml is what the scripted model
// follows, other sections are files of the workspace. In front of them stands the
// script, one word a line:
//
//	start FLAGS...          starts the program; # begins a comment, $WORK is its folder
//	answer SUBTYPE JSON     answers every control request of this subtype
//	mcp NAME                hosts an MCP server that shows text and an image
//	send JSON               sends a line
//	wait JSON               waits for the next line that has these members
//	reply JSON              answers the control request that was waited for
//	end CODE                ends the input and waits for the exit code
//
// An arrow is the direction of a line. What differs from run to run is replaced (see
// wiretest.Plain), long texts and the tools of system/init are cut short, and but
// in a file that says `whole` its other lists and the answer to initialize, too. An answer stands directly behind the request
// that it answers, since it has no fixed place among the other lines (spec
// stream-json 0.2).
func TestStream(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../testdata/stream/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "conversation" })
			if i < 0 {
				archive.Files = append(archive.Files, txtar.File{Name: "conversation"})
				i = len(archive.Files) - 1
			}
			got := converse(t, archive)
			if *update {
				archive.Files[i].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(archive.Files[i].Data), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("(-want +got) %s", diff)
			}
		})
	}
}

// talk is a conversation under way.
type talk struct {
	*host
	plain *wiretest.Plain
	whole bool
	out   strings.Builder
	shown int    // lines that are in out
	asked object // the control request that was waited for
	// replies answer the program's control requests, by subtype; sent are the answers
	// so far, by the request's id.
	replies map[string]func(object) any
	sent    map[string]string
}

// converse plays a script and gives the conversation.
func converse(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	r := newRoom(t)
	for _, f := range archive.Files {
		switch f.Name {
		case "model.yaml":
			r.script(strings.ReplaceAll(string(f.Data), "$WORK", r.work))
		case "conversation":
		default:
			r.write(f.Name, string(f.Data))
		}
	}
	c := &talk{
		plain:   wiretest.NewPlain(r.work, "$WORK", "duration_ms", "duration_api_ms", "totalDurationMs", "durationMs", "pid"),
		replies: map[string]func(object) any{}, sent: map[string]string{},
	}
	for n, line := range strings.Split(string(archive.Comment), "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.ReplaceAll(rest, "$WORK", r.work)
		switch word {
		case "", "#":
		case "whole":
			c.whole = true
		case "answer":
			subtype, text, _ := strings.Cut(rest, " ")
			reply := shown(t, text)
			c.replies[subtype] = func(object) any { return reply }
		case "mcp":
			server := &sdkServer{tools: []object{aTool("show")}, call: func(any, string, object) any {
				return object{"content": []object{{"type": "text", "text": "a picture:"}, {"type": "image", "data": pixel, "mimeType": "image/png"}}}
			}}
			c.replies["mcp_message"] = func(request object) any {
				message, _ := request["message"].(object)
				return server.answer(rest, message)
			}
		case "start":
			c.host = r.start(strings.Fields(rest)...)
			c.mu.Lock()
			c.answer = func(id string, request object) any {
				subtype, _ := request["subtype"].(string)
				if c.replies[subtype] == nil {
					return nil
				}
				reply := c.replies[subtype](request)
				c.mu.Lock()
				defer c.mu.Unlock()
				c.sent[id] = responseTo(id, reply)
				return reply
			}
			c.mu.Unlock()
			fmt.Fprintf(&c.out, "--- dcl %s\n", c.plain.Line(strings.Join(slices.Concat(streamFlags, strings.Fields(rest)), " ")))
		case "send":
			c.line("-->", rest)
			c.send(rest)
			if v := shown(t, rest); v["type"] == "control_request" {
				id, _ := v["request_id"].(string)
				c.answered(id)
			}
		case "wait":
			c.until(shown(t, rest))
		case "reply":
			id, _ := c.asked["request_id"].(string)
			c.line("-->", responseTo(id, shown(t, rest)))
			c.respond(id, shown(t, rest))
		case "end":
			code := c.end()
			c.rest()
			fmt.Fprintf(&c.out, "--- end of input, exit code %d\n", code)
			if fmt.Sprint(code) != rest {
				t.Errorf("exit code %d, want %s", code, rest)
			}
		default:
			t.Fatalf("line %d of the script: no word %s", n+1, word)
		}
	}
	if said := c.errorOutput(); said != "" {
		t.Errorf("standard error: %s", said) // checklist 9
	}
	if len(c.of("stream_event")) > 0 {
		brackets(t, c.host, 0)
	}
	return c.out.String()
}

// pixel is an image of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func responseTo(id string, reply any) string {
	return encode(object{"type": "control_response", "response": object{"subtype": "success", "request_id": id, "response": reply}})
}

func (c *talk) line(arrow, line string) {
	line = long.ReplaceAllStringFunc(line, func(s string) string { return fmt.Sprintf(`%s…(%d)"`, s[:40], len(s)-2) })
	line = durations.ReplaceAllString(line, "duration_ms: 0")
	// In the path of a transcript, which says the folder in another form.
	line = strings.ReplaceAll(strings.ReplaceAll(line, c.room.settings, "$CONFIG"), strings.ReplaceAll(c.room.work, "/", "-"), "-WORK")
	fmt.Fprintf(&c.out, "%s %s\n", arrow, c.plain.Line(line))
}

var (
	long      = regexp.MustCompile(`"[^"\\]{300,}"`)
	durations = regexp.MustCompile(`duration_ms: [0-9]+`)
)

// answered shows the answer to a request of the client.
func (c *talk) answered(id string) {
	c.t.Helper()
	c.wait("the answer to "+id, func(l object) bool { return dig(l, "response", "request_id") == id })
	for i, l := range c.all() {
		if dig(l, "response", "request_id") == id {
			c.line("<--", c.short(i))
		}
	}
}

// until shows the lines to the next one that is wanted.
func (c *talk) until(wanted object) {
	c.t.Helper()
	n := 0
	c.wait(fmt.Sprint("a line like ", wanted), func(l object) bool {
		n++
		if n <= c.shown || !cmp.Equal(any(wanted), like(wanted, l)) {
			return false
		}
		c.asked = l
		return true
	})
	c.to(n)
}

func (c *talk) rest() { c.to(len(c.all())) }

func (c *talk) to(n int) {
	for ; c.shown < n; c.shown++ {
		l := c.all()[c.shown]
		if l["type"] == "control_response" {
			continue // stands behind its request
		}
		c.line("<--", c.short(c.shown))
		subtype, _ := dig(l, "request", "subtype").(string)
		if id, _ := l["request_id"].(string); c.replies[subtype] != nil {
			answer := ""
			eventually(c.t, "the client's answer", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				answer = c.sent[id]
				return answer != ""
			})
			c.line("-->", answer)
		}
	}
}

// lists are those of system/init that say which tools and commands there are.
var lists = regexp.MustCompile(`"(tools|slash_commands|agents|skills|capabilities)":\[[^\]]*\]`)

// short gives line i with what the file does not want to have whole cut short.
func (c *talk) short(i int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw := []byte(c.raw[i])
	switch l := c.lines[i]; {
	case l["type"] == "system" && l["subtype"] == "init":
		raw = lists.ReplaceAllFunc(raw, func(list []byte) []byte {
			if c.whole && !bytes.HasPrefix(list, []byte(`"tools"`)) {
				return list
			}
			return lists.ReplaceAll(list, []byte(`"$1":["…"]`))
		})
	case c.whole:
	case dig(l, "response", "response", "commands") != nil:
		var line struct {
			Response struct {
				Response json.RawMessage `json:"response"`
			} `json:"response"`
		}
		if err := wirejson.Unmarshal(raw, &line); err == nil {
			raw = bytes.Replace(raw, line.Response.Response, []byte(`{"…":"…"}`), 1)
		}
	}
	return string(raw)
}
