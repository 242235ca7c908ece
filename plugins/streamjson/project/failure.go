package project

import (
	"net/http"
	"strconv"
	"strings"

	"dsh/kernel/llm"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// Codes of failures that are not constants of llm: of the loop, and of providers.
const (
	codeFailedCalls   = "TOO_MANY_FAILED_CALLS"
	codeContentFilter = "CONTENT_FILTER"
	codeNoResources   = "INSUFFICIENT_SYSTEM_RESOURCE"
	codeNoAdapter     = "NO_ADAPTER"
)

// statusOverloaded is what a provider answers that has no capacity left.
const statusOverloaded = 529

// ofAPI reports whether a failure is one of the model's API, which is shown as an
// answer that the harness made (spec stream-json 12.1).
func ofAPI(f *sdkproto.Failure) bool {
	switch f.Code {
	case llm.CodeInternal, llm.CodeBudget, codeFailedCalls, codeNoAdapter, "":
		return f.Status != 0
	}
	return true
}

// category is the word for a failure in the table of spec stream-json 12.1. What
// the code says goes ahead of the status: a provider may answer 400 or 429
// because there is no credit.
func category(f *sdkproto.Failure) string {
	switch {
	case f.Status == statusOverloaded || f.Code == codeNoResources:
		return streamjson.ErrorOverloaded
	case f.Code == llm.CodeQuota || f.Status == http.StatusPaymentRequired:
		return streamjson.ErrorBilling
	case f.Status == http.StatusNotFound:
		return streamjson.ErrorModelNotFound
	}
	switch f.Code {
	case llm.CodeAuth, llm.CodeMissingCredential, llm.CodeInvalidCredential:
		return streamjson.ErrorAuthentication
	case llm.CodeRateLimit:
		return streamjson.ErrorRateLimit
	case llm.CodeInvalidRequest, llm.CodeContextWindow, codeContentFilter:
		return streamjson.ErrorInvalidRequest
	case llm.CodeServer, llm.CodeTransport, llm.CodeTimeout, llm.CodeEmptyResponse, llm.CodeStreamClosed, llm.CodeMalformedResponse:
		return streamjson.ErrorServer
	}
	switch s := f.Status; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return streamjson.ErrorAuthentication
	case s == http.StatusTooManyRequests:
		return streamjson.ErrorRateLimit
	case s >= 400 && s < 500:
		return streamjson.ErrorInvalidRequest
	case s >= 500:
		return streamjson.ErrorServer
	}
	return streamjson.ErrorUnknown
}

// textTooLong is what a client is told of a prompt that no room could be made for
// (spec stream-json 11.3).
const textTooLong = "Prompt is too long"

// apiErrorText is the text of the answer that stands for a failure.
func apiErrorText(f *sdkproto.Failure) string {
	if f.Code == llm.CodeContextWindow {
		return textTooLong
	}
	text := f.Message
	if status := strconv.Itoa(f.Status); f.Status != 0 && !strings.Contains(text, status) {
		text = strings.TrimSpace(status + " " + text)
	}
	if text == "" {
		text = f.Code
	}
	return "API Error: " + text
}

// status is the HTTP status of a failure, nil without one.
func status(f *sdkproto.Failure) *int {
	if f.Status == 0 {
		return nil
	}
	return &f.Status
}
