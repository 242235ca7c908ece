package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"dsh/sdkproto"
	"dsh/sdkproto/client"
)

// Start a server, send it one prompt, print the answer as it comes, and end it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.Start(ctx, client.Options{
		// Elsewhere: Command: "dsh", Args: []string{"--profile", "sdk"}. Here a
		// small server is inside the test binary.
		Command: os.Args[0],
		Env:     append(os.Environ(), serverVariable+"=plain"),
		Initialize: sdkproto.InitializeParams{
			Provider: "scripted",
			Model:    "demo",
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(context.Background())

	run, err := c.Session("S").Run(ctx, sdkproto.Text("say hi"))
	if err != nil {
		log.Fatal(err)
	}
	for n, err := range run.Events() {
		if err != nil {
			log.Fatal(err)
		}
		if text, ok := n.TextDelta(); ok {
			fmt.Print(text, "|")
		}
	}
	result, err := run.Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println()
	fmt.Println(result.FinalText, result.FinishReason)
	// Output:
	// h|i|
	// hi completed
}

// Ask for more than the plain protocol: run until the subagents are done, too,
// and fail rather than wait for a server that has fallen silent.
func Example_extensions() {
	ctx := context.Background()
	c, err := client.Start(ctx, client.Options{
		Command: os.Args[0],
		Env:     append(os.Environ(), serverVariable+"=extended"),
		Initialize: sdkproto.InitializeParams{
			Provider: "scripted",
			Model:    "demo",
			InitializeExtensions: sdkproto.InitializeExtensions{
				ProtocolVersion: sdkproto.ProtocolVersion,
				Capabilities: &sdkproto.ClientCapabilities{
					Notifications: []string{sdkproto.NotifyTreeStatus, sdkproto.NotifyPromptFinished},
				},
			},
		},
		Limits: client.Limits{Silence: 30 * time.Second},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)

	session := c.Session("S")
	run, err := session.RunWith(ctx, client.RunOptions{Tree: true}, sdkproto.Text("delegate this"))
	if err != nil {
		log.Fatal(err)
	}
	result, err := run.Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the message:", result.Prompt.FinalText)
	fmt.Println("the tree:", result.FinalText)

	if _, err := session.Cancel(ctx, ""); errors.Is(err, client.ErrNotOffered) {
		fmt.Println("this server cancels nothing")
	}
	// Output:
	// the message: begun
	// the tree: done
	// this server cancels nothing
}
