package external

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"dsh/sdkproto"
	"dsh/sdkproto/plugin"
)

// recorder writes down what it hears, in the file that PLUGIN_TEST_EVENTS names.
// What it does with an event is in the event's data.
func recorder() *plugin.Events {
	path := os.Getenv("PLUGIN_TEST_EVENTS")
	return &plugin.Events{
		Types: []string{"test/", "turn/end"},
		Handle: func(_ context.Context, id string, e sdkproto.Event) error {
			if strings.Contains(string(e.Data), "poison") {
				return errors.New("this one I cannot take")
			}
			f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = fmt.Fprintln(f, id, e.Seq, e.Type)
			if strings.Contains(string(e.Data), "die once") {
				if _, err := os.Stat(path + ".died"); err != nil {
					_ = os.WriteFile(path+".died", nil, 0o600)
					os.Exit(5)
				}
			}
			return err
		},
	}
}
