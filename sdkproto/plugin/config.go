package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	pb "dsh/sdkproto/plugin/pb/v1"
	"dsh/sdkproto/schema"
	"dsh/sdkproto/wirejson"
)

// Configurer takes in the config of a row. Make one with Config.
type Configurer struct {
	schema func() (json.RawMessage, error)
	take   func(json.RawMessage) error
}

// Config makes the Configurer of a struct, which holds the defaults. The schema
// that the harness checks the row against comes from it: json tags name the
// members, a member without omitzero must be in the row, a jsonschema tag
// describes one, and an enum tag lists the words a text may be, parted by
// commas. If *T has a method `Validate() error`, it has the last word; see
// Invalid.
func Config[T any](into *T) Configurer {
	return Configurer{
		schema: schema.For[T],
		take: func(config json.RawMessage) error {
			taken := *into
			if err := wirejson.UnmarshalStrict(config, &taken); err != nil {
				if at := (*wirejson.Error)(nil); errors.As(err, &at) {
					return &fieldError{at.Pointer, at.Err.Error()}
				}
				return err
			}
			if v, ok := any(&taken).(interface{ Validate() error }); ok {
				if err := v.Validate(); err != nil {
					return err
				}
			}
			*into = taken
			return nil
		},
	}
}

type fieldError struct{ pointer, msg string }

func (e *fieldError) Error() string { return e.msg }

// Invalid makes an error about one top-level member of the config: the harness
// shows it with the file and line of the member. Join several with errors.Join.
func Invalid(member, format string, args ...any) error {
	escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(member)
	return &fieldError{"/" + escaped, fmt.Sprintf(format, args...)}
}

// findings takes a joined error apart.
func findings(err error) []*pb.Finding {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*pb.Finding
		for _, one := range joined.Unwrap() {
			all = append(all, findings(one)...)
		}
		return all
	}
	if at := (*fieldError)(nil); errors.As(err, &at) {
		return []*pb.Finding{{Pointer: at.pointer, Message: err.Error()}}
	}
	return []*pb.Finding{{Message: err.Error()}}
}
