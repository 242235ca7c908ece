package toollsp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"dsh/kernel/tool"
	"dsh/sdkproto/wirejson"
)

// asking is one call of the tool.
type asking struct {
	lsp      *LSP
	in       tool.Invocation
	question question
	file     *file
	// position is nil for operations that are not about one.
	position *lspPosition
	*view
}

// findings are the answer to a call.
type findings struct {
	// one and many name what was found.
	one, many string
	places    []place
	// text is the answer to hover.
	text string
	// outline says that the places are all in the file of the call, in the order of
	// the server.
	outline bool
	// silent says that the server has not said whether there is anything.
	silent bool
	// unwatched says that the server may not know of changes by others.
	unwatched bool
}

// place is one result.
type place struct {
	// path is "" when uri names no file.
	path, uri string
	at        lspPosition
	// what stands behind the position; with source the line of the file follows.
	what   string
	source bool
	depth  int
}

func (a *asking) ask(ctx context.Context, s *server, doc *document) (*findings, error) {
	about := lspParams{TextDocument: lspDocument{URI: doc.uri}, Position: a.position}
	switch a.question.Operation {
	case opDefinition:
		return a.locations(ctx, s, "textDocument/definition", about, "definition", "definitions")
	case opImplementation:
		return a.locations(ctx, s, "textDocument/implementation", about, "implementation", "implementations")
	case opReferences:
		about.Context = &referenceContext{true}
		return a.locations(ctx, s, "textDocument/references", about, "reference", "references")
	case opHover:
		var raw struct {
			Contents json.RawMessage `json:"contents"`
		}
		err := s.request(ctx, "textDocument/hover", about, &raw)
		return &findings{one: "type or documentation", many: "types or documentation", text: hoverText(raw.Contents)}, err
	case opDocumentSymbol:
		var symbols []lspSymbol
		if err := s.request(ctx, "textDocument/documentSymbol", about, &symbols); err != nil {
			return nil, err
		}
		f := &findings{one: "symbol", many: "symbols", outline: true}
		f.addOutline(a.file.path, symbols, 0)
		return f, nil
	case opWorkspaceSymbol:
		var symbols []lspSymbol
		if err := s.request(ctx, "workspace/symbol", object{"query": a.question.Query}, &symbols); err != nil {
			return nil, err
		}
		f := &findings{one: "symbol", many: "symbols"}
		for _, sym := range symbols {
			if sym.Location != nil {
				f.add(*sym.Location, described(sym), false)
			}
		}
		return f, nil
	case opIncoming, opOutgoing:
		return a.calls(ctx, s, about)
	}
	list, reported, err := s.diagnose(ctx, a.file, doc)
	if err != nil {
		return nil, err
	}
	f := &findings{one: "diagnostic", many: "diagnostics", silent: !reported}
	for _, d := range list {
		f.places = append(f.places, place{path: a.file.path, at: d.Range.Start, what: diagnosed(d), source: true})
	}
	return f, nil
}

// locations makes a request that is answered by a location, several, or none.
func (a *asking) locations(ctx context.Context, s *server, method string, params lspParams, one, many string) (*findings, error) {
	var raw json.RawMessage
	if err := s.request(ctx, method, params, &raw); err != nil {
		return nil, err
	}
	var list []lspLocation
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0 || string(raw) == "null":
	case raw[0] == '{':
		list = make([]lspLocation, 1)
		if err := wirejson.Unmarshal(raw, &list[0]); err != nil {
			return nil, fmt.Errorf("its answer to %s cannot be read: %w", method, err)
		}
	default:
		if err := wirejson.Unmarshal(raw, &list); err != nil {
			return nil, fmt.Errorf("its answer to %s cannot be read: %w", method, err)
		}
	}
	f := &findings{one: one, many: many}
	for _, loc := range list {
		f.add(loc, "", true)
	}
	return f, nil
}

// maxCallers bounds the functions that one name can stand for.
const maxCallers = 10

// calls asks for who calls the function at the position, or what it calls.
func (a *asking) calls(ctx context.Context, s *server, about lspParams) (*findings, error) {
	var items []json.RawMessage
	if err := s.request(ctx, "textDocument/prepareCallHierarchy", about, &items); err != nil {
		return nil, err
	}
	method, f := "callHierarchy/incomingCalls", &findings{one: "call", many: "calls"}
	if a.question.Operation == opOutgoing {
		method, f = "callHierarchy/outgoingCalls", &findings{one: "called function", many: "called functions"}
	}
	for _, item := range items[:min(len(items), maxCallers)] {
		var calls []lspCall
		if err := s.request(ctx, method, object{"item": item}, &calls); err != nil {
			return nil, err
		}
		for _, call := range calls {
			switch {
			case call.From != nil:
				for _, at := range call.FromRanges {
					f.add(lspLocation{URI: call.From.URI, Range: at}, "in "+symbolKind(call.From.Kind)+" "+oneLine(call.From.Name), true)
				}
			case call.To != nil:
				f.add(lspLocation{URI: call.To.URI, Range: call.To.SelectionRange}, symbolKind(call.To.Kind)+" "+oneLine(call.To.Name), false)
			}
		}
	}
	return f, nil
}

func (f *findings) add(loc lspLocation, what string, source bool) {
	p := place{uri: loc.URI, at: loc.Range.Start, what: what, source: source}
	if loc.TargetURI != "" {
		p.uri, p.at = loc.TargetURI, loc.TargetRange.Start
		if loc.TargetSelectionRange != nil {
			p.at = loc.TargetSelectionRange.Start
		}
	}
	p.path, _ = pathOf(p.uri)
	f.places = append(f.places, p)
}

// maxDepth bounds how deep an outline goes.
const maxDepth = 32

func (f *findings) addOutline(path string, symbols []lspSymbol, depth int) {
	for _, sym := range symbols {
		at := sym.SelectionRange.Start
		if sym.Location != nil {
			at = sym.Location.Range.Start
		}
		f.places = append(f.places, place{path: path, at: at, what: described(sym), depth: depth})
		if depth < maxDepth {
			f.addOutline(path, sym.Children, depth+1)
		}
	}
}

func described(sym lspSymbol) string {
	text := symbolKind(sym.Kind) + " " + oneLine(sym.Name)
	if sym.Detail != "" {
		text += " " + oneLine(sym.Detail)
	}
	if sym.ContainerName != "" {
		text += " (in " + oneLine(sym.ContainerName) + ")"
	}
	return text
}

func diagnosed(d lspDiagnostic) string {
	text := severity(d.Severity) + ": " + strings.TrimSpace(shorten(d.Message, 1000))
	var code string
	if wirejson.Unmarshal(d.Code, &code) != nil {
		code = string(d.Code) // a number
	}
	if from := strings.TrimSpace(d.Source + " " + code); from != "" && from != "null" {
		text += " (" + shorten(oneLine(from), 100) + ")"
	}
	return text
}

// hoverText gives the words of MarkupContent, a MarkedString or several.
func hoverText(raw json.RawMessage) string {
	var text string
	if wirejson.Unmarshal(raw, &text) == nil {
		return strings.TrimSpace(text)
	}
	var marked struct {
		Language string `json:"language"`
		Value    string `json:"value"`
	}
	if wirejson.Unmarshal(raw, &marked) == nil {
		if marked.Language != "" && marked.Value != "" {
			return "```" + marked.Language + "\n" + marked.Value + "\n```"
		}
		return strings.TrimSpace(marked.Value)
	}
	var several []json.RawMessage
	if wirejson.Unmarshal(raw, &several) != nil {
		return ""
	}
	var parts []string
	for _, one := range several {
		if len(one) > 0 && one[0] != '[' {
			if part := hoverText(one); part != "" {
				parts = append(parts, part)
			}
		}
	}
	return strings.Join(parts, "\n\n")
}
