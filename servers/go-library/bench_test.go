package main

import (
	"io"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	"trilane.test/servers/go-library/library"
	"trilane.test/servers/go-library/librarypb"
	"trilane.test/servers/go-library/librarypb/librarypbconnect"
)

// The benchmarks have the shape of those of larking (post 003): one method, one call at a time,
// client and server in one process over loopback and without TLS. So time and allocations are those
// of both sides. The post's rows are:
//
//	BenchmarkLarking/GRPC_GetBook  BenchmarkServeHTTP/GRPC_GetBook  gRPC by net/http's HTTP/2
//	BenchmarkLarking/HTTP_GetBook  BenchmarkVanguard/HTTP_GetBook   transcoded, HTTP/1.1
//	BenchmarkGRPC/GRPC_GetBook     BenchmarkGRPC/GRPC_GetBook       grpc-go's own HTTP/2
//
// larking itself is in larking_test.go, and our gateway in trilane_test.go.
//
// GRPC_ is asked by grpc-go's client, HTTP_ and HTTP2_ by net/http's, which decodes the JSON. The
// post had cmux before grpc-go's own server; here it has a port of its own. Nobody asks for gzip: the
// handlers of connect-go, vanguard's too, would compress these 100 bytes, which the others would not.
//
//	go test -run '^$' -bench GetBook -benchmem -count=10 . | tee new.txt && go tool benchstat new.txt
const bookName = "shelves/1/books/1"

func BenchmarkServeHTTP(b *testing.B) {
	b.Run("GRPC_GetBook", func(b *testing.B) { benchmarkGRPC(b, "grpc-http") })
}

func BenchmarkGRPC(b *testing.B) {
	b.Run("GRPC_GetBook", func(b *testing.B) { benchmarkGRPC(b, "grpc") })
}

func BenchmarkVanguard(b *testing.B) {
	b.Run("GRPC_GetBook", func(b *testing.B) { benchmarkGRPC(b, "vanguard") })
	b.Run("HTTP_GetBook", func(b *testing.B) { benchmarkREST(b, begin(b, "vanguard"), "h1c") })
	b.Run("HTTP2_GetBook", func(b *testing.B) { benchmarkREST(b, begin(b, "vanguard"), "h2c") })
}

func BenchmarkGateway(b *testing.B) {
	b.Run("HTTP_GetBook", func(b *testing.B) { benchmarkREST(b, begin(b, "gateway"), "h1c") })
	b.Run("HTTP2_GetBook", func(b *testing.B) { benchmarkREST(b, begin(b, "gateway"), "h2c") })
}

// The other way to use the gateway: the service's methods called directly, past gRPC.
func BenchmarkGatewayInProcess(b *testing.B) {
	within := implementation{handler: func(books *library.Library) (http.Handler, func(), error) {
		mux := newGatewayMux()
		server := &library.GRPC{Library: books}
		return mux, func() {}, librarypb.RegisterLibraryHandlerServer(b.Context(), mux, server)
	}}
	b.Run("HTTP_GetBook", func(b *testing.B) { benchmarkREST(b, beginOf(b, within), "h1c") })
	b.Run("HTTP2_GetBook", func(b *testing.B) { benchmarkREST(b, beginOf(b, within), "h2c") })
}

func BenchmarkConnect(b *testing.B) {
	b.Run("GRPC_GetBook", func(b *testing.B) { benchmarkGRPC(b, "connect") })
	b.Run("HTTP_GetBook", func(b *testing.B) { benchmarkConnect(b, "h1c") })
	b.Run("HTTP2_GetBook", func(b *testing.B) { benchmarkConnect(b, "h2c") })
}

func benchmarkGRPC(b *testing.B, name string) {
	benchmarkCalls(b, begin(b, name))
}

func benchmarkCalls(b *testing.B, server *started) {
	client := librarypb.NewLibraryClient(server.dial(b, "h2c"))
	ctx := b.Context()
	repeat(b, func() error {
		_, err := client.GetBook(ctx, &librarypb.GetBookRequest{Name: bookName})
		return err
	})
}

func benchmarkREST(b *testing.B, server *started, version string) {
	client := server.client(b, version)
	url := server.origin(version) + "/v1/" + bookName
	repeat(b, func() error {
		response, err := client.Get(url)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil {
			return err
		}
		return protojson.Unmarshal(content, &librarypb.Book{})
	})
}

func benchmarkConnect(b *testing.B, version string) {
	server := begin(b, "connect")
	client := librarypbconnect.NewLibraryClient(
		server.client(b, version), server.origin(version), connect.WithProtoJSON(),
		connect.WithAcceptCompression("gzip", nil, nil),
	)
	ctx := b.Context()
	repeat(b, func() error {
		_, err := client.GetBook(ctx, connect.NewRequest(&librarypb.GetBookRequest{Name: bookName}))
		return err
	})
}

// The first call, which connects, is not counted.
func repeat(b *testing.B, call func() error) {
	if err := call(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := call(); err != nil {
			b.Fatal(err)
		}
	}
}
