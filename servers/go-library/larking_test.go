//go:build larking

package main

import (
	"net/http"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"larking.io/larking"

	"trilane.test/servers/go-library/library"
	"trilane.test/servers/go-library/librarypb"
)

// The mux of post 003, behind the same listener as the other handlers. Its module is required by
// larking.mod alone, so that the other benchmarks can be built where it cannot be had.
func BenchmarkLarking(b *testing.B) {
	mux := implementation{handler: func(books *library.Library) (http.Handler, func(), error) {
		mux, err := larking.NewMux()
		if err != nil {
			return nil, nil, err
		}
		mux.RegisterService(onlyGetBook(), &library.GRPC{Library: books})
		return mux, func() {}, nil
	}}
	b.Run("GRPC_GetBook", func(b *testing.B) { benchmarkCalls(b, beginOf(b, mux)) })
	b.Run("HTTP_GetBook", func(b *testing.B) { benchmarkREST(b, beginOf(b, mux), "h1c") })
	b.Run("HTTP2_GetBook", func(b *testing.B) { benchmarkREST(b, beginOf(b, mux), "h2c") })
}

// The service with one method: larking takes no rule whose response_body is a repeated field.
func onlyGetBook() *grpc.ServiceDesc {
	service := librarypb.Library_ServiceDesc
	service.Streams = nil
	service.Methods = slices.DeleteFunc(
		slices.Clone(service.Methods),
		func(method grpc.MethodDesc) bool { return method.MethodName != "GetBook" },
	)
	return &service
}
