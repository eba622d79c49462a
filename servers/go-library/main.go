// Command server is the library service by one of Go's stacks: grpc-go by its own listener or by
// net/http, vanguard, grpc-gateway, connect-go. Each takes TLS and QUIC on one port, where it can, and
// cleartext on another.
package main

//go:generate go run ./internal/generate

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
)

func main() {
	impl := flag.String("impl", "", "implementation: "+strings.Join(names(), ", "))
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
	if err := run(chosen, *port, *plain, *cert, *key); err != nil {
		log.Fatal(err)
	}
}

func run(chosen implementation, port, plain int, cert, key string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	running, err := start(chosen, addresses{
		secure: fmt.Sprintf("127.0.0.1:%d", port),
		clear:  fmt.Sprintf("127.0.0.1:%d", plain),
	}, pair)
	if err != nil {
		return err
	}
	defer running.stop()
	select {
	case err = <-running.ended:
		return err
	case <-asked.Done():
		return nil
	}
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
