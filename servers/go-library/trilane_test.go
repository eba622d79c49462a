package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Our gateway before grpc-go's own listener. It is a process of its own: its time is in that of a call,
// but what it allocates is not in what Go counts.
func BenchmarkTrilane(b *testing.B) {
	b.Run("GRPC_GetBook", func(b *testing.B) { benchmarkCalls(b, beginTrilane(b)) })
	b.Run("HTTP_GetBook", func(b *testing.B) { benchmarkREST(b, beginTrilane(b), "h1c") })
	b.Run("HTTP2_GetBook", func(b *testing.B) { benchmarkREST(b, beginTrilane(b), "h2c") })
}

// The words of the command, one a line, stand in TRILANE.
func beginTrilane(b *testing.B) *started {
	b.Helper()
	words := strings.Split(os.Getenv("TRILANE"), "\n")
	if words[0] == "" {
		b.Skip("TRILANE does not say how trilane is started")
	}
	behind := begin(b, "grpc")
	words = append(words, "gateway", "--upstream", "grpc://"+behind.clear.String(),
		"--port", "0", "--tls-port", "0", "-t", "1", "--exit-with-parent")
	program := exec.Command(words[0], words[1:]...)
	errors := new(bytes.Buffer)
	program.Stderr = errors
	// It stops when this is closed.
	input, err := program.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	output, err := program.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := program.Start(); err != nil {
		b.Fatal(err)
	}
	told := make(chan net.Addr, 1)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		defer close(told)
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if at := cleartext(lines.Text()); at != nil {
				select {
				case told <- at:
				default:
				}
			}
		}
	}()
	b.Cleanup(func() {
		_ = input.Close()
		<-drained
		if err := program.Wait(); err != nil {
			b.Error(fmt.Errorf("the gateway: %w: %s", err, errors))
		}
	})
	select {
	case at, ok := <-told:
		if !ok {
			b.Fatal("the gateway has not said where it listens, and has ended")
		}
		return &started{&running{clear: at}, behind.roots}
	case <-time.After(patience):
		_ = program.Process.Kill()
		b.Fatalf("the gateway has not said within %s where it listens", patience)
		return nil
	}
}

// The address of cleartext in the line that says where the gateway listens; nil for any other.
func cleartext(line string) net.Addr {
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "ready:" {
		return nil
	}
	origin, err := url.Parse(words[1])
	if err != nil {
		return nil
	}
	at, err := netip.ParseAddrPort(origin.Host)
	if err != nil {
		return nil
	}
	return net.TCPAddrFromAddrPort(at)
}
