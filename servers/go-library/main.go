// Command server is the library service by one of Go's stacks: grpc-go by its own listener or by
// net/http, vanguard, grpc-gateway, connect-go. Each takes TLS and QUIC on one port, where it can, and
// cleartext on another. Words behind the flags are a program that runs beside it, such as a proxy before
// it, for as long as it does.
package main

//go:generate go run ./internal/generate

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
)

func main() {
	impl := flag.String("impl", "", "implementation: "+strings.Join(names(), ", "))
	bind := flag.String("bind", "127.0.0.1", "IPv4 address to listen on")
	port := flag.Int("port", 8443, "port for TLS, and for QUIC")
	plain := flag.Int("plain", 8080, "port for cleartext")
	cert := flag.String("cert", "", "certificate, PEM")
	key := flag.String("key", "", "private key, PEM")
	version := flag.Bool("version", false, "print the versions of the software and end")
	flag.Parse()
	chosen, ok := implementations[*impl]
	if !ok {
		log.Fatalf("-impl %q: choose from %s", *impl, strings.Join(names(), ", "))
	}
	if *version {
		fmt.Println(software(chosen.modules))
		return
	}
	if err := run(chosen, addresses{
		secure: fmt.Sprintf("%s:%d", *bind, *port),
		clear:  fmt.Sprintf("%s:%d", *bind, *plain),
	}, *cert, *key, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(chosen implementation, at addresses, cert, key string, beside []string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	running, err := start(chosen, at, pair)
	if err != nil {
		return err
	}
	defer running.stop()
	program := make(chan error, 1)
	if len(beside) > 0 {
		go func() { program <- runBeside(asked, beside) }()
	}
	select {
	case err = <-running.ended:
		return err
	case err = <-program:
		if asked.Err() != nil {
			// The signal came to all of the group.
			return nil
		}
		return fmt.Errorf("%s has ended: %w", beside[0], err)
	case <-asked.Done():
		if len(beside) > 0 {
			<-program
		}
		return nil
	}
}

// Runs a program until it ends, or until the context does: then it is asked to end too. Should this
// process be killed, the program notices by the end of its standard input.
func runBeside(ctx context.Context, words []string) error {
	program := exec.CommandContext(ctx, words[0], words[1:]...)
	program.Stdout, program.Stderr = os.Stdout, os.Stderr
	program.Cancel = func() error { return program.Process.Signal(syscall.SIGTERM) }
	program.WaitDelay = grace
	input, err := program.StdinPipe()
	if err != nil {
		return err
	}
	defer input.Close()
	if err := program.Run(); err != nil {
		return err
	}
	return errors.New("it was not asked to")
}

// Versions of what answers: the modules named, then Go.
func software(modules []string) string {
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			versions[module.Path] = module.Version
		}
	}
	var words []string
	for _, path := range modules {
		words = append(words, path+" "+versions[path])
	}
	return strings.Join(append(words, runtime.Version()), "; ")
}
