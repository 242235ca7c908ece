package wirejson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"dsh/sdkproto/wirejson"
)

func TestUnmarshalLeniency(t *testing.T) {
	type frame struct {
		ID     string `json:"id"`
		Method string `json:"method"`
	}
	for name, tc := range map[string]struct {
		in   string
		want frame
	}{
		"keys are case-sensitive":  {`{"ID":"x","METHOD":"y"}`, frame{}},
		"last duplicate wins":      {`{"id":"a","id":"b"}`, frame{ID: "b"}},
		"bad UTF-8 is replaced":    {"{\"id\":\"a\xffb\"}", frame{ID: "a\ufffdb"}},
		"lone surrogate":           {`{"id":"\ud800"}`, frame{ID: "\ufffd"}},
		"unknown members ignored":  {`{"id":"a","more":[1,{"x":null}]}`, frame{ID: "a"}},
		"leading and trailing gap": {" {\"id\":\"a\"}\r\n", frame{ID: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got frame
			if err := wirejson.Unmarshal([]byte(tc.in), &got); err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Fatalf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestStrictNamesTheMember(t *testing.T) {
	var c struct {
		Limits struct {
			Max int `json:"max"`
		} `json:"limits"`
	}
	err := wirejson.UnmarshalStrict([]byte(`{"limits":{"mx":1}}`), &c)
	var e *wirejson.Error
	if !errors.As(err, &e) || e.Pointer != "/limits/mx" || e.Unknown != "mx" {
		t.Fatalf("got %#v", err)
	}
	err = wirejson.UnmarshalStrict([]byte(`{"limits":{"max":"1"}}`), &c)
	if !errors.As(err, &e) || e.Pointer != "/limits/max" {
		t.Fatalf("got %#v", err)
	}
	if got, want := err.Error(), "/limits/max: cannot use a JSON string as an integer"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestMarshal(t *testing.T) {
	got, err := wirejson.Marshal(map[string]any{"b": []string(nil), "a": "<&>\u2028"})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a":"<&>\u2028","b":[]}`; string(got) != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

// TestB91OneLine: no text makes a JSON text that a reader of lines can take for
// two, and its value stays what it was (case B91).
func TestB91OneLine(t *testing.T) {
	for name, text := range map[string]string{
		"none":             "plain, \u00e9\u20ac\uffff\U0001f680 \u2027\u202a\u0084\u0086\ufefe",
		"each":             "a\u2028b\u2029c\u0085d\ufeffe\u000bf\u000cg\rh\ni\x1cj\x1dk\x1el",
		"only":             "\u2028",
		"at the ends":      "\u0085\u2029x\ufeff\u0085",
		"behind quotes":    "\u201c\u2028\u201d",
		"no UTF-8 between": "\xe2\u2028\xc2\u0085\xe2\x80",
	} {
		t.Run(name, func(t *testing.T) {
			want := string([]rune(text)) // what is not UTF-8 becomes U+FFFD
			raw, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range "\u2028\u2029\u0085\ufeff" {
				raw = bytes.ReplaceAll(raw, fmt.Appendf(nil, `\u%04x`, r), []byte(string(r)))
			}
			marshalled, err := wirejson.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			compacted, err := wirejson.Compact(raw)
			if err != nil {
				t.Fatal(err)
			}
			for how, got := range map[string][]byte{
				"Marshal": marshalled, "Compact": compacted, "Escape": wirejson.Escape(raw), "AppendString": wirejson.AppendString(nil, text),
			} {
				if i := bytes.IndexFunc(got, func(r rune) bool { return r < ' ' || r == 0x85 || r == 0x2028 || r == 0x2029 || r == 0xfeff }); i >= 0 {
					t.Errorf("%s leaves %q", how, got[i:])
				}
				var back string
				if err := json.Unmarshal(got, &back); err != nil || back != want {
					t.Errorf("%s: got %q (%v), want %q", how, back, err, want)
				}
			}
		})
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "q\"b\\n\n\t\r\x00\x1f", "\xff\xfe", "日本\u2028", "\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := wirejson.AppendString(nil, s)
		var back string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if want := string([]rune(s)); back != want {
			t.Fatalf("got %q, want %q", back, want)
		}
	})
}
