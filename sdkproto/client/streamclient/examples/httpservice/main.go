// Command httpservice is an example of a Go host: an HTTP service whose answers
// come from dcl (S082). It shows one-off queries, streaming with server-sent
// events, chats of many turns, tools inside the service, and a policy of the
// service for all other tools.
//
//	go run ./sdkproto/client/streamclient/examples/httpservice -dcl path/to/dcl &
//	curl -d '{"prompt":"hello"}' localhost:8080/query
//	curl -Nd '{"prompt":"slow"}' localhost:8080/stream
//	curl -X POST localhost:8080/chats
//	curl -d '{"prompt":"what time is it"}' localhost:8080/chats/1
//	curl -Nd '{"prompt":"slow"}' localhost:8080/chats/1/stream
//	curl -X DELETE localhost:8080/chats/1
//
// There is nobody in front of it who says who may ask: give it to the world only
// behind something that does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"dsh/sdkproto/client/streamclient"
)

func main() {
	address := flag.String("listen", "127.0.0.1:8080", "address to listen at")
	program := flag.String("dcl", "dcl", "path of dcl")
	dir := flag.String("dir", "", "working directory of dcl; that of this program by default")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := streamclient.Options{Command: *program, Args: flag.Args(), Dir: *dir, Stderr: os.Stderr}
	if err := run(ctx, *address, o); err != nil {
		fmt.Fprintln(os.Stderr, "httpservice:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address string, o streamclient.Options) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintln(os.Stderr, "listening at", listener.Addr())
	s := newService(o)
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		s.stop() // ends the turns, so that their requests end
		if err = server.Shutdown(ending); err != nil {
			err = errors.Join(err, server.Close())
		}
		<-served
	}
	return errors.Join(err, s.close())
}
