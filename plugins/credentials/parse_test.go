package credentials

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

type parseCase struct {
	name, text string
	want       map[string]string
	err        string
}

func testParse(t *testing.T, parse func([]byte) (map[string]string, error), cases []parseCase) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parse([]byte(tc.text))
			switch {
			case tc.err == "" && err != nil, tc.err != "" && (err == nil || err.Error() != tc.err):
				t.Fatalf("got error %v, want %q", err, tc.err)
			case tc.err == "":
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
			case strings.Contains(err.Error(), "sk-"):
				t.Errorf("the error quotes the value: %v", err)
			}
		})
	}
}

func TestParseDotenv(t *testing.T) {
	testParse(t, parseDotenv, []parseCase{
		{name: "empty", want: map[string]string{}},
		{name: "plain", text: "A=sk-1\nb_2=x=y", want: map[string]string{"A": "sk-1", "b_2": "x=y"}},
		{name: "spaces", text: "  A = sk-1  \n\tB=\tsk 2\t", want: map[string]string{"A": "sk-1", "B": "sk 2"}},
		{name: "export", text: "export A=sk-1\nexport\tB=2\nexport=3", want: map[string]string{"A": "sk-1", "B": "2", "export": "3"}},
		{name: "comments", text: "# one\nA=sk-1 # two\nB=sk-1#2\n  # three\nC=#4", want: map[string]string{"A": "sk-1", "B": "sk-1#2", "C": ""}},
		{name: "single quotes", text: `A='sk-1 # "x" \n $B'` + "\nB='' # none", want: map[string]string{"A": `sk-1 # "x" \n $B`, "B": ""}},
		{name: "double quotes", text: `A="sk-1 # 'x' \"\\ \n\t\r $B"`, want: map[string]string{"A": "sk-1 # 'x' \"\\ \n\t\r $B"}},
		{name: "nothing is expanded", text: "A=$B${C}", want: map[string]string{"A": "$B${C}"}},
		{name: "byte-order mark and CRLF", text: "\ufeffA=sk-1\r\nB=2\r\n", want: map[string]string{"A": "sk-1", "B": "2"}},
		{name: "no equals sign", text: "A=1\n\nsk-1", err: "3: must be NAME=value"},
		{name: "odd name", text: "A-B=sk-1", err: "1: the name before the = must have letters, digits and _ only"},
		{name: "no name", text: "=sk-1", err: "1: the name before the = must have letters, digits and _ only"},
		{name: "name begins with a digit", text: "1A=sk-1", err: "1: the name before the = must have letters, digits and _ only"},
		{name: "open quote", text: `A="sk-1`, err: "1: the closing quote is missing"},
		{name: "open escape", text: `A="sk-1\`, err: "1: the closing quote is missing"},
		{name: "text behind a quote", text: `A="sk-1"2`, err: "1: something follows the closing quote"},
		{name: "comment glued to a quote", text: `A="sk-1"#2`, err: "1: something follows the closing quote"},
		{name: "quote inside", text: `A=sk-"1"`, err: "1: put the whole value in quotes"},
		{name: "unknown escape", text: `A="sk-\u0041"`, err: `1: inside double quotes only \", \\, \n, \r and \t are known; use single quotes`},
		{name: "twice", text: "A=sk-1\nA=sk-2", err: "2: A is there twice; remove one"},
		{name: "not UTF-8", text: "A=\xff\xfe", err: "1: the file must be UTF-8 text"},
		{name: "UTF-16", text: "\xff\xfeA\x00=\x001\x00", err: "1: the file must be UTF-8 text"},
		{name: "lone carriage return", text: "A=sk-1\rB=2", err: "1: a control character or an unusual line break is in the line"},
	})
}

// A .env file cannot steer the process or say where keys are sent (spec jsonrpc
// 11.2).
func TestForbiddenNames(t *testing.T) {
	for _, name := range []string{
		"DSH_HOME", "DSH_SESSION_ROOT", "dsh_x", "PATH", "Path", "DEEPSEEK_BASE_URL",
		"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "no_proxy", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "HOME",
	} {
		_, err := parseDotenv([]byte("# first\nexport " + name + "=x"))
		want := "2: " + name + " may not be set in this file; set it in the environment of the process"
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	if _, err := parseDotenv([]byte("DEEPSEEK_API_KEY=sk-1\nMY_PATH=x\nPROXY_KEY=y")); err != nil {
		t.Error(err)
	}
}

func TestParseYAML(t *testing.T) {
	testParse(t, parseYAML, []parseCase{
		{name: "empty", want: map[string]string{}},
		{name: "plain", text: "---\n# all\nA: sk-1\nB:   x:y # no\nC: 0123\nD: yes", want: map[string]string{"A": "sk-1", "B": "x:y", "C": "0123", "D": "yes"}},
		{name: "quotes", text: "A: 'it''s # 1'\nB: \"a\\\"b\\\\\" # c", want: map[string]string{"A": "it's # 1", "B": `a"b\`}},
		{name: "nothing", text: "A:\nB: ~\nC: null\nD: # x", want: map[string]string{"A": "", "B": "", "C": "", "D": ""}},
		{name: "byte-order mark and CRLF", text: "\ufeffA: sk-1\r\nB: '2'\r\n", want: map[string]string{"A": "sk-1", "B": "2"}},
		{name: "bare value", text: "sk-1", err: "1: must be `NAME: value`"},
		{name: "no space", text: "A:sk-1", err: "1: must be `NAME: value`"},
		{name: "nested", text: "A:\n  B: sk-1", err: "2: the name before the colon must begin the line and have letters, digits and _ only"},
		{name: "list", text: "- A: sk-1", err: "1: the name before the colon must begin the line and have letters, digits and _ only"},
		{name: "continued", text: "A: sk-1\n  sk-2", err: "2: must be `NAME: value`"},
		{name: "flow", text: "A: {b: sk-1}", err: "1: put the value in quotes"},
		{name: "block", text: "A: |\n  sk-1", err: "1: put the value in quotes"},
		{name: "alias", text: "A: *sk-1", err: "1: put the value in quotes"},
		{name: "tag", text: "A: !!str sk-1", err: "1: put the value in quotes"},
		{name: "colon inside", text: "A: sk-1: 2", err: "1: put the value in quotes"},
		{name: "two documents", text: "A: sk-1\n---\nA: sk-2", err: "2: must be `NAME: value`"},
		{name: "twice", text: "A: sk-1\nA: sk-2", err: "2: A is there twice; remove one"},
	})
}

// FuzzParseYAML: whatever the parser accepts, a YAML library reads the same way.
func FuzzParseYAML(f *testing.F) {
	for _, text := range []string{
		"A: b", "---\nA: 'b''c'\n", "A: \"x\\n\" # c\nB: ~", "A: b #c", "A: b#c", "a: - x", "A: 'b' 'c'", "\ufeffA: b\r\n",
		"A: b\n---", "A: \tb", "A:\tb", "null: x", "A: b \t# c", "A: 1.10\nB: 0x1F\nC: 2001-01-01", "A: <<", "<<: A", "y: n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseYAML([]byte(text))
		if err != nil || strings.Contains(text, "\t") {
			return // the library refuses most tabs, of which none changes a value
		}
		want := map[string]string{}
		if err := yaml.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q is accepted as %q, and is no YAML: %v", text, got, err)
		}
		if want == nil {
			want = map[string]string{}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q is read differently (-YAML +ours):\n%s", text, diff)
		}
	})
}
