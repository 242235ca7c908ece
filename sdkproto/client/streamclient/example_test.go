package streamclient_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"dsh/sdkproto/client/streamclient"
	"dsh/sdkproto/streamjson"
)

// Start a program, send it a prompt, follow what it does, and end it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	s, err := streamclient.Start(ctx, streamclient.Options{
		// Elsewhere dcl, or its path. Here a small program is inside the test binary.
		Command: os.Args[0],
		Env:     append(os.Environ(), programVariable+"=usual"),
		CanUseTool: func(_ context.Context, q streamjson.CanUseTool) (streamjson.Permission, error) {
			if q.ToolName == "Bash" {
				return streamclient.Deny("no shell here"), nil
			}
			return streamclient.Allow(), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(context.Background())

	turn, err := s.Query(ctx, "hello")
	if err != nil {
		log.Fatal(err)
	}
	for line, err := range turn.Lines(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch m := line.Body.(type) {
		case *streamclient.User:
			fmt.Println("the turn begins:", m.Message.Content[0].Text)
		case *streamjson.Assistant:
			fmt.Println("a block of the answer:", m.Message.Content[0].Text)
		case *streamjson.Result:
			fmt.Println("the turn ends:", m.Result)
		}
	}
	// Output:
	// the turn begins: hello
	// the turn ends: you said hello
}

// A whole session for one prompt.
func ExampleQuery() {
	result, err := streamclient.Query(context.Background(), streamclient.Options{
		Command: os.Args[0],
		Env:     append(os.Environ(), programVariable+"=usual"),
	}, "hello")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Result, result.IsError)
	// Output:
	// you said hello false
}
