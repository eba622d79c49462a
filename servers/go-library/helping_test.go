package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const patience = 30 * time.Second

// A server of this process on free ports of 127.0.0.1, and who vouches for it.
type started struct {
	*running
	roots *x509.CertPool
}

func begin(t testing.TB, name string) *started {
	t.Helper()
	return beginOf(t, implementations[name])
}

func beginOf(t testing.TB, chosen implementation) *started {
	t.Helper()
	pair, roots := certificate(t)
	at := addresses{secure: "127.0.0.1:0", clear: "127.0.0.1:0"}
	running, err := start(chosen, at, pair)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		running.stop()
		select {
		case err := <-running.ended:
			t.Error(err)
		default:
		}
	})
	return &started{running, roots}
}

func (s *started) tls() *tls.Config {
	return &tls.Config{RootCAs: s.roots}
}

func (s *started) origin(version string) string {
	if version == "h2c" || version == "h1c" {
		return "http://" + s.clear.String()
	}
	return "https://" + s.secure.String()
}

// A client of net/http or quic-go that speaks one version and no other.
func (s *started) client(t testing.TB, version string) *http.Client {
	if version == "h3" {
		transport := &http3.Transport{TLSClientConfig: s.tls()}
		t.Cleanup(func() { _ = transport.Close() })
		return &http.Client{Transport: transport, Timeout: patience}
	}
	transport := &http.Transport{
		TLSClientConfig: s.tls(),
		Protocols:       new(http.Protocols),
		// Otherwise it asks for gzip, and Connect's handler compresses messages of any size.
		DisableCompression: true,
	}
	switch version {
	case "h1", "h1c":
		transport.Protocols.SetHTTP1(true)
	case "h2":
		transport.Protocols.SetHTTP2(true)
	case "h2c":
		transport.Protocols.SetUnencryptedHTTP2(true)
	default:
		t.Fatalf("%s is no version", version)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// A connection of grpc-go, in cleartext or with TLS.
func (s *started) dial(t testing.TB, version string) *grpc.ClientConn {
	t.Helper()
	at, how := s.clear, insecure.NewCredentials()
	if version == "h2" {
		at, how = s.secure, credentials.NewTLS(s.tls())
	}
	connection, err := grpc.NewClient(at.String(), grpc.WithTransportCredentials(how))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func timed(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	content, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(content)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{content}, PrivateKey: key}, roots
}
