package toollsp

import "encoding/json"

// The parts of the Language Server Protocol (3.17) that the tool uses. Positions
// count lines from 0 and characters in UTF-16 units from 0.

type lspPosition struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type lspRange struct {
	Start lspPosition `json:"start"`
	End   lspPosition `json:"end"`
}

// lspLocation is a Location or, with the members of the second half, a
// LocationLink.
type lspLocation struct {
	URI   string   `json:"uri"`
	Range lspRange `json:"range"`

	TargetURI            string    `json:"targetUri"`
	TargetRange          lspRange  `json:"targetRange"`
	TargetSelectionRange *lspRange `json:"targetSelectionRange"`
}

type lspDocument struct {
	URI string `json:"uri"`
	// Version is sent where a document changes.
	Version int `json:"version,omitzero"`
}

type lspDocumentItem struct {
	URI        string `json:"uri"`
	LanguageID string `json:"languageId"`
	Version    int    `json:"version"`
	Text       string `json:"text"`
}

type lspChange struct {
	Text string `json:"text"`
}

// lspParams are the parameters of every request about a document.
type lspParams struct {
	TextDocument lspDocument       `json:"textDocument"`
	Position     *lspPosition      `json:"position,omitzero"`
	Context      *referenceContext `json:"context,omitzero"`
}

type referenceContext struct {
	IncludeDeclaration bool `json:"includeDeclaration"`
}

// lspSymbol is a DocumentSymbol, or a SymbolInformation or WorkspaceSymbol when it
// has a location.
type lspSymbol struct {
	Name           string       `json:"name"`
	Detail         string       `json:"detail"`
	Kind           int          `json:"kind"`
	SelectionRange lspRange     `json:"selectionRange"`
	Children       []lspSymbol  `json:"children"`
	Location       *lspLocation `json:"location"`
	ContainerName  string       `json:"containerName"`
}

// lspCallItem is a CallHierarchyItem; what else it holds goes back as it came.
type lspCallItem struct {
	Name           string   `json:"name"`
	Kind           int      `json:"kind"`
	URI            string   `json:"uri"`
	SelectionRange lspRange `json:"selectionRange"`
}

type lspCall struct {
	From       *lspCallItem `json:"from"`
	To         *lspCallItem `json:"to"`
	FromRanges []lspRange   `json:"fromRanges"`
}

type lspDiagnostic struct {
	Range    lspRange        `json:"range"`
	Severity int             `json:"severity"`
	Code     json.RawMessage `json:"code"`
	Source   string          `json:"source"`
	Message  string          `json:"message"`
}

type lspPublished struct {
	URI         string          `json:"uri"`
	Version     *int            `json:"version"`
	Diagnostics []lspDiagnostic `json:"diagnostics"`
}

type lspReport struct {
	Kind  string          `json:"kind"`
	Items []lspDiagnostic `json:"items"`
}

type lspFileEvent struct {
	URI  string `json:"uri"`
	Type int    `json:"type"`
}

// Types of lspFileEvent.
const (
	fileCreated = 1
	fileChanged = 2
	fileDeleted = 3
)

type lspProgress struct {
	Token json.RawMessage `json:"token"`
	Value struct {
		Kind       string   `json:"kind"`
		Title      string   `json:"title"`
		Message    string   `json:"message"`
		Percentage *float64 `json:"percentage"`
	} `json:"value"`
}

// Codes of errors of the protocol.
const (
	codeMethodNotFound  = -32601
	codeContentModified = -32801
	codeServerCancelled = -32802
)

type object = map[string]any

// capabilities is what the harness tells servers that it can do.
func capabilities() object {
	dynamic := object{"dynamicRegistration": true}
	return object{
		"general": object{"positionEncodings": []string{"utf-16"}},
		"window":  object{"workDoneProgress": true},
		"workspace": object{
			"configuration": true, "workspaceFolders": true, "didChangeWatchedFiles": dynamic,
			"symbol": object{},
		},
		"textDocument": object{
			"synchronization":    object{},
			"definition":         object{"linkSupport": true},
			"implementation":     object{"linkSupport": true},
			"references":         object{},
			"hover":              object{"contentFormat": []string{"markdown", "plaintext"}},
			"documentSymbol":     object{"hierarchicalDocumentSymbolSupport": true},
			"callHierarchy":      object{},
			"diagnostic":         dynamic,
			"publishDiagnostics": object{"versionSupport": true},
		},
	}
}

// symbolKinds are the protocol's numbers for kinds of symbols, from 1.
var symbolKinds = [...]string{
	"", "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum", "interface",
	"function", "variable", "constant", "string", "number", "boolean", "array", "object", "key", "null", "enum member",
	"struct", "event", "operator", "type parameter",
}

func symbolKind(n int) string {
	if n > 0 && n < len(symbolKinds) {
		return symbolKinds[n]
	}
	return "symbol"
}

func severity(n int) string {
	switch n {
	case 2:
		return "warning"
	case 3:
		return "information"
	case 4:
		return "hint"
	}
	return "error"
}
