package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"trilane.test/servers/go-library/library"
)

// What calls that are under way get to finish.
const grace = 2 * time.Second

type addresses struct {
	// TLS, and QUIC where there is HTTP/3.
	secure string
	clear  string
}

// Servers of one library.
type running struct {
	secure, clear net.Addr
	// The first error of any of them.
	ended chan error
	// Of the listeners, each for up to `grace`.
	stops []func()
	// Ends what the handler began.
	end func()
}

func (r *running) stop() {
	var stopping sync.WaitGroup
	for _, stop := range r.stops {
		stopping.Go(stop)
	}
	stopping.Wait()
	r.end()
}

func (r *running) serve(serve func() error) {
	go func() {
		if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			select {
			case r.ended <- err:
			default:
			}
		}
	}()
}

func start(chosen implementation, at addresses, pair tls.Certificate) (*running, error) {
	secure, err := net.Listen("tcp4", at.secure)
	if err != nil {
		return nil, err
	}
	clear, err := net.Listen("tcp4", at.clear)
	if err != nil {
		return nil, errors.Join(err, secure.Close())
	}
	r := &running{
		secure: secure.Addr(), clear: clear.Addr(), ended: make(chan error, 1), end: func() {},
	}
	books := library.New()
	if chosen.handler == nil {
		r.serveGRPC(newGRPC(books), clear)
		r.serveGRPC(newGRPC(books, grpc.Creds(credentials.NewServerTLSFromCert(&pair))), secure)
		return r, nil
	}
	handler, end, err := chosen.handler(books)
	if err != nil {
		return nil, errors.Join(err, secure.Close(), clear.Close())
	}
	r.end = end
	handler = withHello(handler)
	r.serveHTTP(handler, clear, nil)
	r.serveHTTP(handler, secure, &pair)
	if chosen.h3 {
		if err := r.serveH3(handler, secure.Addr(), &pair); err != nil {
			r.stop()
			return nil, err
		}
	}
	return r, nil
}

func (r *running) serveGRPC(server *grpc.Server, listener net.Listener) {
	r.serve(func() error { return server.Serve(listener) })
	r.stops = append(r.stops, func() {
		// A stream need not end by itself.
		defer time.AfterFunc(grace, server.Stop).Stop()
		server.GracefulStop()
	})
}

// HTTP/1.1 and HTTP/2, the latter by ALPN or, in cleartext, by prior knowledge.
func (r *running) serveHTTP(handler http.Handler, listener net.Listener, pair *tls.Certificate) {
	server := &http.Server{
		Handler:   handler,
		Protocols: new(http.Protocols),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	server.Protocols.SetHTTP1(true)
	if pair == nil {
		server.Protocols.SetUnencryptedHTTP2(true)
		r.serve(func() error { return server.Serve(listener) })
	} else {
		server.Protocols.SetHTTP2(true)
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*pair}}
		r.serve(func() error { return server.ServeTLS(listener, "", "") })
	}
	r.stops = append(r.stops, func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	})
}

// On the port that TLS has for TCP.
func (r *running) serveH3(handler http.Handler, at net.Addr, pair *tls.Certificate) error {
	address, err := net.ResolveUDPAddr("udp4", at.String())
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp4", address)
	if err != nil {
		return err
	}
	server := &http3.Server{
		Handler:    handler,
		TLSConfig:  http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{*pair}}),
		QUICConfig: &quic.Config{MaxIncomingStreams: maxStreams},
	}
	r.serve(func() error { return server.Serve(socket) })
	r.stops = append(r.stops, func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		_ = socket.Close()
	})
	return nil
}

// By which somebody who waits for the server finds it ready.
func withHello(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/hello" {
			handler.ServeHTTP(response, request)
			return
		}
		response.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = response.Write([]byte("hello world"))
	})
}
