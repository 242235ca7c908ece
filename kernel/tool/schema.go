package tool

import (
	"encoding/json"
	"errors"
	"fmt"

	"dsh/sdkproto/schema"
	"dsh/sdkproto/wirejson"
)

// SchemaFor derives a tool's parameters from a Go struct; see schema.For.
func SchemaFor[T any]() (json.RawMessage, error) { return schema.For[T]() }

// checker is implemented by tools that check their arguments themselves.
type checker interface {
	CheckArguments(json.RawMessage) error
}

// Refuser is implemented by tools that answer calls whose arguments they do not
// take themselves, in place of the usual text. No stage sees such a call.
type Refuser interface {
	// Refuse makes the result; err says what is wrong with in.Arguments, which may
	// be no JSON.
	Refuse(in Invocation, err error) Result
}

// CheckArguments refuses what is no JSON object, and says where (case B52). A
// member that comes twice is refused, too: who looks at a call before it runs may
// see the one, and the tool the other (case B23).
func CheckArguments(t Tool, arguments json.RawMessage) error {
	var value any
	if err := wirejson.UnmarshalStrict(arguments, &value); err != nil {
		at := ""
		if e := (*wirejson.Error)(nil); errors.As(err, &e) {
			at = fmt.Sprintf(" at byte %d", e.Offset)
		}
		return fmt.Errorf("they cannot be read%s: %w; send one JSON object", at, err)
	}
	if _, ok := value.(map[string]any); !ok {
		return errors.New("not a JSON object; send one JSON object")
	}
	if c, ok := t.(checker); ok {
		return c.CheckArguments(arguments)
	}
	return nil
}
