package wirejson_test

import (
	"encoding/json"
	"errors"
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
	if want := "{\"a\":\"<&>\u2028\",\"b\":[]}"; string(got) != want {
		t.Fatalf("got %s, want %s", got, want)
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
