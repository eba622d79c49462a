// Command server is a target in Go: HTTP/1.1 and HTTP/2 by net/http, HTTP/3 by quic-go, on one
// port with TLS; HTTP/1.1 and cleartext HTTP/2 on another.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// Of HTTP/2 and HTTP/3 alike; what the two libraries choose by themselves differs.
const maxStreams = 1000

func main() {
	bind := flag.String("bind", "127.0.0.1", "IPv4 address to listen on")
	port := flag.Int("port", 8443, "port for TLS, and for QUIC")
	plain := flag.Int("plain", 8080, "port for cleartext")
	cert := flag.String("cert", "", "certificate, PEM")
	key := flag.String("key", "", "private key, PEM")
	books := flag.String("books", "", "books.json")
	www := flag.String("www", "", "folder with the other content")
	version := flag.Bool("version", false, "print the versions of the software and end")
	flag.Parse()
	if *version {
		fmt.Println(software())
		return
	}
	if err := serve(*bind, *port, *plain, *cert, *key, *books, *www); err != nil {
		log.Fatal(err)
	}
}

func software() string {
	text := "Go net/http, " + runtime.Version()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/quic-go/quic-go" {
				text += "; quic-go " + module.Version
			}
		}
	}
	return text
}

func serve(bind string, port, plain int, cert, key, books, www string) error {
	content, err := load(books, www)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	handler := routes(content)
	secure := &http.Server{
		Addr:      fmt.Sprintf("%s:%d", bind, port),
		Handler:   handler,
		Protocols: new(http.Protocols),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
	}
	secure.Protocols.SetHTTP1(true)
	secure.Protocols.SetHTTP2(true)
	clear := &http.Server{
		Addr:      fmt.Sprintf("%s:%d", bind, plain),
		Handler:   handler,
		Protocols: new(http.Protocols),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	clear.Protocols.SetHTTP1(true)
	clear.Protocols.SetUnencryptedHTTP2(true)
	three := &http3.Server{
		Handler:    handler,
		TLSConfig:  http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}}),
		QUICConfig: &quic.Config{MaxIncomingStreams: maxStreams},
	}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(bind), Port: port})
	if err != nil {
		return err
	}
	ended := make(chan error, 3)
	go func() { ended <- secure.ListenAndServeTLS("", "") }()
	go func() { ended <- clear.ListenAndServe() }()
	go func() { ended <- three.Serve(socket) }()
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	select {
	case err = <-ended:
		return err
	case <-asked.Done():
		return nil
	}
}
