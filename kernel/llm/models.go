package llm

// Formats of model APIs (S080).
const (
	FormatAnthropic = "anthropic"
	FormatOpenAI    = "openai"
	FormatDeepSeek  = "deepseek"
	FormatMock      = "mock"
)

// Formats lists the formats, in the order of help texts.
func Formats() []string { return []string{FormatAnthropic, FormatOpenAI, FormatDeepSeek, FormatMock} }

// Model is one entry of the list that a front end shows.
type Model struct {
	// Value is what a client may say for it: an alias or an id.
	Value string
	// Name is for people, Description one line for them.
	Name, Description string
	// Route is what Value means.
	Route Route
	// Efforts are the words for effort that the model takes, from low to high;
	// empty when it takes none.
	Efforts []string
}

// Models says which route a model name means (S044, S079, S080). Its methods may
// be called from any goroutine and make no request.
type Models interface {
	// Resolve gives the route of a model id or alias; "" and "default" are the
	// default. format is one of the Format constants and then decides the provider,
	// or "": then the id does, else whichever credential is set, and without a
	// model and without a credential the scripted model answers. A route whose
	// credential is missing is no error: the turn says what to set. The error
	// names what is wrong with format.
	Resolve(format, model string) (Route, error)
	// Models lists what a client may choose from under a format; the default is the
	// first.
	Models(format string) []Model
	// Credential names where the key of a route comes from: the variable, such as
	// ANTHROPIC_API_KEY, or another word of spec stream-json 3.2; "none" without.
	Credential(r Route) string
}
