package credential_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"dsh/kernel/credential"
	"dsh/sdkproto/wirejson"
)

const value = "sk-0123456789abcdef"

func secret(t *testing.T) credential.Secret {
	t.Helper()
	s, err := credential.Parse("KEY", "a test", value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSecretNeverShows(t *testing.T) {
	s := secret(t)
	type exported struct{ Key credential.Secret }
	type inner struct{ key credential.Secret }
	shown := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%T", "%20s"} {
		shown["value "+verb] = fmt.Sprintf(verb, s)
		shown["pointer "+verb] = fmt.Sprintf(verb, &s)
		shown["exported "+verb] = fmt.Sprintf(verb, exported{s})
		shown["unexported "+verb] = fmt.Sprintf(verb, inner{s})
		shown["list "+verb] = fmt.Sprintf(verb, []any{s, inner{s}})
	}
	for _, v := range []any{s, &s, exported{s}, map[string]any{"k": s}} {
		for name, marshal := range map[string]func(any) ([]byte, error){"json": json.Marshal, "wirejson": wirejson.Marshal} {
			out, err := marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			shown[fmt.Sprintf("%s of %T", name, v)] = string(out)
		}
	}
	if out, err := json.Marshal(map[credential.Secret]int{s: 1}); err == nil {
		shown["json key"] = string(out)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "key", s, "group", slog.GroupValue(slog.Any("k", s)))
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "key", s, "in", exported{s}, "err", fmt.Errorf("with %v", s))
	shown["log"] = log.String()
	shown["error"] = fmt.Errorf("wrapped: %w, %v", errors.New("x"), s).Error()

	hex := fmt.Sprintf("%x", value)
	for how, text := range shown {
		if strings.Contains(text, value) || strings.Contains(strings.ToLower(text), hex) {
			t.Errorf("%s shows the secret: %s", how, text)
		}
	}
	if s.Reveal() != value {
		t.Errorf("Reveal gives %q", s.Reveal())
	}
	if got, want := s.Redact("your key "+value+" is wrong: "+value), "your key [secret] is wrong: [secret]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (credential.Secret{}).Redact("as it is"); got != "as it is" {
		t.Errorf("no secret redacts %q", got)
	}
}

func TestEnvironment(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		set        bool
		want       string
		err        string
	}{
		{name: "set", text: value, set: true, want: value},
		{name: "trimmed", text: " \t" + value + "\r\n", set: true, want: value},
		{name: "absent", err: "the credential KEY is not set; set it in the environment"},
		{name: "blank", text: " \n ", set: true, err: "the credential KEY is not set; set it in the environment"},
		{name: "not ASCII", text: "sk-схема", set: true, err: "the credential KEY in the environment holds characters other than printable ASCII; copy it anew"},
		{name: "line break inside", text: "sk-1\nsk-2", set: true, err: "the credential KEY in the environment holds characters other than printable ASCII; copy it anew"},
		{name: "delete character", text: "sk\x7f", set: true, err: "the credential KEY in the environment holds characters other than printable ASCII; copy it anew"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := credential.Environment(func(name string) (string, bool) {
				if name != "KEY" {
					t.Errorf("asked for %q", name)
				}
				return tc.text, tc.set
			})
			s, err := env.Lookup(context.Background(), "KEY")
			if got := fmt.Sprint(err); tc.err != "" && got != tc.err || tc.err == "" && err != nil {
				t.Errorf("got error %v, want %q", err, tc.err)
			}
			if s.Reveal() != tc.want {
				t.Errorf("got %q, want %q", s.Reveal(), tc.want)
			}
			var missing *credential.MissingError
			if errors.As(err, &missing) != strings.Contains(tc.err, "not set") {
				t.Errorf("%v is of the wrong type", err)
			}
		})
	}
}
