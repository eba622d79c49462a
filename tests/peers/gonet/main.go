// Command gonet is a net/http server for tests: HTTP/1.1 and HTTP/2 over TLS, HTTP/1.1 and
// cleartext HTTP/2 without.
//
// On SIGHUP it shuts down gracefully (GOAWAY on HTTP/2, idle HTTP/1.1 connections closed) while a
// successor accepts on the same ports, as a server that is replaced under load does.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	plain := flag.String("plain", "127.0.0.1:8080", "address of the cleartext port")
	secure := flag.String("tls", "127.0.0.1:8443", "address of the TLS port")
	cert := flag.String("cert", "", "certificate, PEM")
	key := flag.String("key", "", "private key, PEM")
	clientCA := flag.String("client-ca", "", "demand a client certificate of this authority, PEM")
	echName := flag.String("ech-name", "", "public name of Encrypted Client Hello, which is taken then")
	echList := flag.String("ech-list", "", "file that gets its ECHConfigList")
	echRetry := flag.Bool("ech-retry", true, "whether those who used another key get that")
	flag.Parse()

	config, err := tlsConfig(*cert, *key, *clientCA)
	if err == nil && *echName != "" {
		err = offerECH(config, *echName, *echList, *echRetry)
	}
	if err != nil {
		log.Fatal(err)
	}
	services := []*service{listen(*plain, nil), listen(*secure, config)}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	for range hangups {
		for _, service := range services {
			service.succeed()
		}
	}
}

func tlsConfig(cert, key, clientCA string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if clientCA != "" {
		pem, err := os.ReadFile(clientCA)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(pem)
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// service is one port and the server that accepts on it now.
type service struct {
	listener net.Listener
	config   *tls.Config
	server   *http.Server
}

func listen(address string, config *tls.Config) *service {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	service := &service{listener: listener, config: config}
	service.serve()
	return service
}

func (s *service) serve() {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(s.config != nil)
	protocols.SetUnencryptedHTTP2(s.config == nil)
	s.server = &http.Server{Handler: routes(), Protocols: protocols, TLSConfig: s.config}
	server, listener := s.server, s.listener
	go func() {
		var err error
		if s.config == nil {
			err = server.Serve(listener)
		} else {
			err = server.ServeTLS(listener, "", "")
		}
		if err != http.ErrServerClosed {
			log.Fatal(err)
		}
	}()
}

// succeed hands the port to a new server before the old one closes it, so that no connection is
// ever refused: both hold a descriptor of the same listening socket.
func (s *service) succeed() {
	file, err := s.listener.(*net.TCPListener).File()
	if err != nil {
		log.Fatal(err)
	}
	successor, err := net.FileListener(file)
	if err != nil {
		log.Fatal(err)
	}
	file.Close()
	old := s.server
	s.listener = successor
	s.serve()
	go old.Shutdown(context.Background())
}

func routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello world")
	})
	mux.HandleFunc("/bytes/{n}", bytesOf)
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/delay/{time}", delay)
	mux.HandleFunc("/trailers", trailers)
	mux.HandleFunc("/hints", hints)
	mux.HandleFunc("/close", closing)
	mux.HandleFunc("/sni", serverName)
	mux.HandleFunc("/ech", hello)
	return mux
}

// bytesOf answers with n bytes without announcing the length: chunked on HTTP/1.1.
func bytesOf(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 0 || n > 1<<30 {
		http.Error(w, "how many bytes?", http.StatusBadRequest)
		return
	}
	block := make([]byte, 4096)
	for i := range block {
		block[i] = byte(i % 251)
	}
	for ; n > 0; n -= min(n, len(block)) {
		if _, err := w.Write(block[:min(n, len(block))]); err != nil {
			return
		}
	}
}

// echo answers with the request's body and trailers, the body's checksum in a field.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("X-Crc32", fmt.Sprintf("%08x", crc32.ChecksumIEEE(body)))
	w.Write(body)
	if len(r.Trailer) > 0 {
		// Trailers follow chunks, and a short body would be sent with its length.
		w.(http.Flusher).Flush()
	}
	for name, values := range r.Trailer {
		w.Header()[http.TrailerPrefix+name] = values
	}
}

func delay(w http.ResponseWriter, r *http.Request) {
	pause, err := time.ParseDuration(r.PathValue("time"))
	if err != nil {
		http.Error(w, "how long?", http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(pause):
		io.WriteString(w, "hello world")
	case <-r.Context().Done():
	}
}

func trailers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "X-Checksum")
	io.WriteString(w, "hello world")
	w.(http.Flusher).Flush()
	w.Header().Set("X-Checksum", "0d4a1185")
}

// hints sends two interim responses before the final one.
func hints(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload; as=style")
	w.WriteHeader(http.StatusEarlyHints)
	w.WriteHeader(http.StatusEarlyHints)
	w.Header().Del("Link")
	io.WriteString(w, "hello world")
}

// closing ends the connection with this response: GOAWAY on HTTP/2.
func closing(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	io.WriteString(w, "hello world")
}

func serverName(w http.ResponseWriter, r *http.Request) {
	if r.TLS != nil {
		io.WriteString(w, r.TLS.ServerName)
	}
}
