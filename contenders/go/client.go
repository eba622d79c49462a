package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// session is an http.Client with a pool of its own and the way to end it.
type session struct {
	*http.Client
	close func()
}

// factory makes sessions that speak one version and trust one certificate authority.
type factory struct {
	plan        *plan
	roots       *x509.CertPool // nil: the system's
	connections atomic.Int64   // opened so far
}

func newFactory(p *plan) (*factory, error) {
	f := &factory{plan: p}
	if p.CACert == nil {
		return f, nil
	}
	pem, err := os.ReadFile(*p.CACert)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate authority: %w", err)
	}
	f.roots = x509.NewCertPool()
	if !f.roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", *p.CACert)
	}
	return f, nil
}

func (f *factory) session() session {
	transport, end := f.transport()
	return session{
		Client: &http.Client{
			Transport: transport,
			Timeout:   f.plan.timeout(),
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
		close: end,
	}
}

func (f *factory) transport() (http.RoundTripper, func()) {
	if f.plan.Version == "h3" {
		return f.quicTransport()
	}
	protocols := new(http.Protocols)
	switch f.plan.Version {
	case "h1":
		protocols.SetHTTP1(true)
	case "h2":
		protocols.SetHTTP2(true)
	case "h2c":
		protocols.SetUnencryptedHTTP2(true)
	}
	dialer := &net.Dialer{Timeout: f.plan.timeout()}
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := dialer.DialContext(ctx, network, address)
			if err == nil {
				f.connections.Add(1)
			}
			return connection, err
		},
		TLSClientConfig:     &tls.Config{RootCAs: f.roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: f.plan.timeout(),
		Protocols:           protocols,
		DisableCompression:  !f.plan.Gzip,
		MaxIdleConnsPerHost: f.plan.inFlight(),
	}
	if f.plan.onOneConnection() || f.plan.Version != "h1" && f.plan.pool() == 1 {
		one := &oneConnection{transport: t}
		return one, one.close
	}
	t.MaxConnsPerHost = f.plan.pool()
	return t, t.CloseIdleConnections
}

// oneConnection sends every request on the same connection and opens a new one only when that is
// gone. A Transport opens one for each of the first requests, before any is known to speak HTTP/2,
// and with MaxConnsPerHost its requests starve beyond the server's stream limit.
type oneConnection struct {
	transport *http.Transport
	mu        sync.Mutex
	current   *http.ClientConn
}

func (o *oneConnection) RoundTrip(request *http.Request) (*http.Response, error) {
	connection, err := o.connect(request)
	if err != nil {
		return nil, err
	}
	return connection.RoundTrip(request)
}

func (o *oneConnection) connect(request *http.Request) (*http.ClientConn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current != nil && o.current.Err() == nil {
		return o.current, nil
	}
	connection, err := o.transport.NewClientConn(request.Context(), request.URL.Scheme, request.URL.Host)
	if err != nil {
		return nil, err
	}
	o.current = connection
	return connection, nil
}

func (o *oneConnection) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current != nil {
		_ = o.current.Close()
	}
}

func (f *factory) quicTransport() (http.RoundTripper, func()) {
	t := &http3.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: f.roots, MinVersion: tls.VersionTLS13},
		DisableCompression: !f.plan.Gzip,
		QUICConfig:         &quic.Config{HandshakeIdleTimeout: f.plan.timeout()},
		Dial: func(ctx context.Context, address string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
			connection, err := quic.DialAddrEarly(ctx, address, tlsConfig, config)
			if err == nil {
				f.connections.Add(1)
			}
			return connection, err
		},
	}
	return t, func() { _ = t.Close() }
}
