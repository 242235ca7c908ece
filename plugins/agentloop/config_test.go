package agentloop_test

import (
	"strings"
	"testing"
	"time"

	"dsh/plugins/agentloop"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

func TestConfig(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"empty":             {`{}`, ""},
		"all":               {`{"maxSteps":1,"maxFailedCalls":1,"pool":1,"maxQueued":1,"retries":{"max":0,"delay":"0s","maxDelay":"1m","jitter":0.5},"verifyRequests":true}`, ""},
		"no steps":          {`{"maxSteps":0}`, "use 1 or more"},
		"no pool":           {`{"pool":-1}`, "use 1 or more"},
		"negative retries":  {`{"retries":{"max":-1}}`, "use 0 or more"},
		"number":            {`{"retries":{"delay":500}}`, `500 is not a length of time; write text like "500ms"`},
		"no unit":           {`{"retries":{"delay":"500"}}`, `"500" is not a length of time`},
		"negative delay":    {`{"retries":{"delay":"-1s"}}`, "cannot be negative"},
		"short longest":     {`{"retries":{"maxDelay":"1ms"}}`, "use 500ms or more"},
		"too much jitter":   {`{"retries":{"jitter":2}}`, "not between 0 and 1"},
		"misspelt":          {`{"retires":{}}`, "unknown key"},
		"misspelt in block": {`{"retries":{"maximum":1}}`, "unknown key"},
	} {
		t.Run(name, func(t *testing.T) {
			c := agentloop.Defaults()
			err := wirejson.UnmarshalStrict([]byte(tc.text), &c)
			if err == nil {
				err = c.Validate()
			}
			switch {
			case tc.want == "" && err != nil:
				t.Fatal(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("got %v, want %q", err, tc.want)
			}
		})
	}
	text, err := wirejson.Marshal(agentloop.Defaults().Retries)
	must(t, err)
	if want := `{"max":5,"delay":"500ms","maxDelay":"10s","jitter":0.1}`; string(text) != want {
		t.Errorf("defaults print as %s", text)
	}
	if d := time.Duration(agentloop.Defaults().Retries.MaxDelay); d != 10*time.Second {
		t.Error(d)
	}
}

// TestTitle is decision D30.
func TestTitle(t *testing.T) {
	image := sdkproto.Block{Type: sdkproto.BlockImage, Attachment: &sdkproto.Attachment{AttachmentID: "sha256:00"}}
	for name, tc := range map[string]struct {
		content []sdkproto.Block
		want    string // "" for no title
	}{
		"folded":        {[]sdkproto.Block{sdkproto.Text(" fix\n\tthe   bug ")}, "fix the bug"},
		"forty runes":   {[]sdkproto.Block{sdkproto.Text(strings.Repeat("ä", 50))}, strings.Repeat("ä", 40)},
		"cut at a gap":  {[]sdkproto.Block{sdkproto.Text(strings.Repeat("x", 39) + " yes")}, strings.Repeat("x", 39)},
		"two blocks":    {[]sdkproto.Block{image, sdkproto.Text("look"), sdkproto.Text("here")}, "look here"},
		"no text":       {[]sdkproto.Block{image}, ""},
		"blank text":    {[]sdkproto.Block{sdkproto.Text(" \n")}, ""},
		"empty prompt":  {nil, ""},
		"many words":    {[]sdkproto.Block{sdkproto.Text(strings.Repeat("ab ", 5000))}, strings.TrimSpace(strings.Repeat("ab ", 14)[:40])},
		"foreign block": {[]sdkproto.Block{{Type: "note", Text: "not text"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a, rec := r.open("s")
			for range 2 { // a session is named once
				_, err := a.Send(t.Context(), tc.content, sdkproto.Source{Kind: sdkproto.SourceUser}, sdkproto.TargetNextTurn)
				must(t, err)
				idle(t, a)
			}
			var got []string
			for _, l := range rec.lines() {
				if title, ok := strings.CutPrefix(l, "session/title "); ok {
					got = append(got, title)
				}
			}
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || got[0] != tc.want) {
				t.Fatalf("titles %q, want %q", got, tc.want)
			}
		})
	}
}
