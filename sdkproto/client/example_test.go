package client_test

import (
	"context"
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
