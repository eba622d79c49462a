package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// kind gives the lab's name for what went wrong.
func kind(err error) string {
	var (
		own         *failure
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		alert       tls.AlertError
		header      tls.RecordHeaderError
		dns         *net.DNSError
		timeout     net.Error
		transport   *quic.TransportError
		application *quic.ApplicationError
		stream      *quic.StreamError
		h3          *http3.Error
	)
	switch {
	case errors.As(err, &own):
		return own.kind
	case errors.As(err, &dns):
		return "dns"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.As(err, &stream):
		return "reset"
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &hostname),
		errors.As(err, &alert), errors.As(err, &header):
		return "tls"
	case errors.As(err, &transport):
		if transport.ErrorCode.IsCryptoError() {
			return "tls"
		}
		return "protocol"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.As(err, &application):
		return "closed"
	case errors.As(err, &h3):
		return "protocol"
	}
	return byText(err.Error())
}

// byText knows the errors of net/http that have no type.
func byText(text string) string {
	switch {
	case strings.Contains(text, "GOAWAY"):
		return "goaway"
	case strings.Contains(text, "stream error"):
		return "reset"
	case strings.Contains(text, "tls:"):
		return "tls"
	case strings.Contains(text, "malformed"), strings.Contains(text, "http2:"), strings.Contains(text, "HTTP/"):
		return "protocol"
	case strings.Contains(text, "connection closed"), strings.Contains(text, "connection lost"):
		return "closed"
	}
	return "connect"
}
