package chatwire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"dsh/kernel/llm"
	"dsh/sdkproto/wirejson"
)

// maxErrorBytes bounds what is read of an answer that refuses a request, and
// maxMessage what is shown of it, in characters.
const (
	maxErrorBytes = 64 << 10
	maxMessage    = 500
)

// report is what a provider says of a failure.
type report struct {
	message, kind, code string
}

// readReport finds the words of a failure in the forms that endpoints use.
func readReport(body []byte) report {
	type fields struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Msg     json.RawMessage `json:"msg"`
		Detail  json.RawMessage `json:"detail"`
		Type    json.RawMessage `json:"type"`
		Code    json.RawMessage `json:"code"`
	}
	var f fields
	if err := wirejson.Unmarshal(body, &f); err != nil {
		return report{message: string(body)}
	}
	if len(f.Error) > 0 && f.Error[0] == '{' {
		outer := f
		f = fields{}
		if err := wirejson.Unmarshal(outer.Error, &f); err != nil {
			return report{message: string(outer.Error)}
		}
		f.Error = nil
	}
	r := report{kind: words(f.Type), code: words(f.Code)}
	for _, m := range []json.RawMessage{f.Message, f.Error, f.Msg, f.Detail} {
		if r.message = words(m); r.message != "" {
			break
		}
	}
	return r
}

// words gives the text of a JSON value: a string's own, anything else as it
// stands.
func words(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var s string
	if wirejson.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

var quotaWords = []string{
	"insufficient_quota", "insufficient quota", "insufficient balance", "insufficient_balance", "insufficient_user_quota",
	"insufficient credit", "insufficient_credit", "insufficient funds", "exceeded your current quota", "quota exceeded",
	"quota_exceeded", "exceeded_current_quota", "out of credits", "credit balance", "billing", "arrearage", "余额不足",
}

var contextWords = []string{
	"context length", "context_length", "context window", "context_window", "context size", "maximum context",
	"max_context", "prompt is too long", "prompt too long", "input is too long", "input too long", "too many tokens", "input length",
	"reduce the length of the messages", "exceeds the maximum number of tokens", "token limit", "maximum number of input tokens",
}

func speaksOf(text string, any []string) bool {
	for _, w := range any {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// classify gives the code of a failed request (spec jsonrpc 10.6).
func classify(status int, r report) string {
	text := strings.ToLower(r.kind + " " + r.code + " " + r.message)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return llm.CodeAuth
	case status == http.StatusRequestEntityTooLarge:
		return llm.CodeInvalidRequest
	case speaksOf(text, quotaWords):
		return llm.CodeQuota
	case status == http.StatusTooManyRequests:
		return llm.CodeRateLimit
	case status == http.StatusBadRequest && speaksOf(text, contextWords):
		return llm.CodeContextWindow
	case status == http.StatusBadRequest:
		return llm.CodeInvalidRequest
	case status >= 500:
		return llm.CodeServer
	}
	return "HTTP_" + strconv.Itoa(status)
}

// classifyReport gives the code of a failure that came inside a stream: by the
// status it names, else by its words. What cannot be told is the server's and
// worth another attempt (case B56).
func classifyReport(r report) string {
	if status, err := strconv.Atoi(r.code); err == nil && status >= 400 && status < 600 {
		return classify(status, r)
	}
	text := strings.ToLower(r.kind + " " + r.code + " " + r.message)
	switch {
	case speaksOf(text, quotaWords):
		return llm.CodeQuota
	case speaksOf(text, []string{"rate_limit", "rate limit", "too many requests"}):
		return llm.CodeRateLimit
	case speaksOf(text, contextWords):
		return llm.CodeContextWindow
	case speaksOf(text, []string{"authentication", "invalid_api_key", "permission_denied", "permission_error"}):
		return llm.CodeAuth
	case speaksOf(text, []string{"invalid_request", "bad_request"}):
		return llm.CodeInvalidRequest
	}
	return llm.CodeServer
}

// response says where an error comes from and keeps its secret out of it.
type response struct {
	// host is whose answer it is, keyName the credential that was sent, "" for none.
	host, keyName string
	header        http.Header
	redact        func(string) string
}

// refused makes the error of an answer that is not 2xx.
func (r *response) refused(status int, body []byte) *llm.Error {
	found := readReport(body)
	e := &llm.Error{Code: classify(status, found), Message: r.clean(found.message), Status: status}
	switch page := strings.ToLower(strings.TrimSpace(string(body[:min(len(body), 200)]))); {
	case strings.HasPrefix(page, "<!doctype") || strings.HasPrefix(page, "<html") || strings.HasPrefix(page, "<?xml"):
		// The words of a page are not the provider's.
		e.Code = classify(status, report{})
		e.Message = fmt.Sprintf("%s answered %s with a web page%s", r.host, statusText(status), titleOf(r.redact(string(body))))
	case e.Message == "":
		e.Message = r.host + " answered " + statusText(status)
	}
	switch {
	case e.Code == llm.CodeAuth && r.keyName != "":
		e.Message += "; check the credential " + r.keyName
	case status >= 300 && status < 400:
		e.Message += "; the endpoint has moved, correct baseUrl"
	case status == http.StatusNotFound:
		e.Message += "; check the model and baseUrl"
	}
	return r.signed(e)
}

// reported makes the error of a failure inside a stream.
func (r *response) reported(body []byte) *llm.Error {
	found := readReport(body)
	if strings.TrimSpace(found.message) == "" {
		found.message = r.host + " reported an error inside the stream: " + string(body)
	}
	return r.signed(&llm.Error{Code: classifyReport(found), Message: r.clean(found.message)})
}

// signed adds what the header of the answer says.
func (r *response) signed(e *llm.Error) *llm.Error {
	e.RequestID = r.header.Get("x-request-id")
	for _, other := range []string{"request-id", "x-deepseek-request-id"} {
		if e.RequestID == "" {
			e.RequestID = r.header.Get(other)
		}
	}
	e.RequestID = shorten(e.RequestID, 200)
	if e.Retryable() {
		e.RetryAfter = retryAfter(r.header, time.Now())
	}
	return e
}

func (r *response) clean(message string) string {
	return shorten(scrub(r.redact(message)), maxMessage)
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

func titleOf(page string) string {
	lower := strings.ToLower(page)
	if len(lower) != len(page) {
		return ""
	}
	begin := strings.Index(lower, "<title>")
	if begin < 0 {
		return ""
	}
	begin += len("<title>")
	end := strings.Index(lower[begin:], "</title>")
	if end < 0 {
		return ""
	}
	return fmt.Sprintf(" (%q)", shorten(page[begin:begin+end], 80))
}

// shorten puts a text on one line of at most n characters.
func shorten(text string, n int) string {
	text = text[:min(len(text), 8*n)] // white space may be most of it
	text = strings.ToValidUTF8(strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " "), "\ufffd")
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n]) + "..."
	}
	return text
}

// maxRetryAfter bounds what a header can ask for; every policy gives up long
// before it.
const maxRetryAfter = 365 * 24 * time.Hour

// retryAfter reads the header of that name: whole seconds or an HTTP date, which
// is measured against the server's own clock where it tells it.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("retry-after"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if server, err := http.ParseTime(h.Get("date")); err == nil {
		now = server
	}
	return min(max(0, date.Sub(now)), maxRetryAfter)
}
