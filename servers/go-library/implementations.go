package main

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"connectrpc.com/vanguard"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/encoding/protojson"

	"trilane.test/servers/go-library/library"
	"trilane.test/servers/go-library/librarypb"
	"trilane.test/servers/go-library/librarypb/librarypbconnect"
)

const (
	// Of HTTP/2 and HTTP/3 alike; what the libraries choose by themselves differs.
	maxStreams = 1000
	// Of a message that a caller sends: grpc-go's own limit, for the others too.
	maxMessage = 4 << 20
)

// One way to reach the library.
type implementation struct {
	// For `-version`.
	modules []string
	// Whether it can do HTTP/3 as well.
	h3 bool
	// For net/http and quic-go; nil where grpc-go listens by itself. The function ends what was begun.
	handler func(*library.Library) (http.Handler, func(), error)
}

var implementations = map[string]implementation{
	"grpc": {modules: []string{"google.golang.org/grpc"}},
	// grpc-go refuses whatever is not HTTP/2.
	"grpc-http": {
		modules: []string{"google.golang.org/grpc"},
		handler: func(books *library.Library) (http.Handler, func(), error) {
			server := newGRPC(books)
			return server, server.Stop, nil
		},
	},
	"vanguard": {
		modules: []string{
			"connectrpc.com/vanguard", "connectrpc.com/connect", "github.com/quic-go/quic-go",
		},
		h3: true,
		handler: func(books *library.Library) (http.Handler, func(), error) {
			handler, err := newVanguard(books)
			return handler, func() {}, err
		},
	},
	"vanguard-proxy": {
		modules: []string{
			"connectrpc.com/vanguard", "google.golang.org/grpc", "github.com/quic-go/quic-go",
		},
		h3:      true,
		handler: newVanguardProxy,
	},
	"gateway": {
		modules: []string{
			"github.com/grpc-ecosystem/grpc-gateway/v2", "google.golang.org/grpc",
			"github.com/quic-go/quic-go",
		},
		h3:      true,
		handler: newGateway,
	},
	"connect": {
		modules: []string{"connectrpc.com/connect", "github.com/quic-go/quic-go"},
		h3:      true,
		handler: func(books *library.Library) (http.Handler, func(), error) {
			return newConnect(books), func() {}, nil
		},
	},
}

func names() []string {
	return slices.Sorted(maps.Keys(implementations))
}

func newGRPC(books *library.Library, options ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append(options, grpc.MaxConcurrentStreams(maxStreams))...)
	librarypb.RegisterLibraryServer(server, &library.GRPC{Library: books})
	checks := health.NewServer()
	checks.SetServingStatus(
		librarypb.Library_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING,
	)
	grpc_health_v1.RegisterHealthServer(server, checks)
	// Both v1 and v1alpha.
	reflection.Register(server)
	return server
}

// Connect, gRPC and gRPC-Web, with reflection.
func newConnect(books *library.Library) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(librarypbconnect.NewLibraryHandler(
		&library.Connect{Library: books}, connect.WithReadMaxBytes(maxMessage),
	))
	reflector := grpcreflect.NewStaticReflector(librarypbconnect.LibraryName)
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector))
	return mux
}

// The transcoder before connect-go's handler: that is what it passes gRPC, gRPC-Web and Connect on to
// as they are, and translates REST to.
func newVanguard(books *library.Library) (http.Handler, error) {
	return transcoding(newConnect(books))
}

// The transcoder before a gRPC server of the same process, to which net/http's reverse proxy passes
// calls on over loopback.
func newVanguardProxy(books *library.Library) (http.Handler, func(), error) {
	address, stop, err := behind(books)
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(&url.URL{Scheme: "http", Host: address})
		},
		Transport: transport,
		// Messages of streams go on as they come.
		FlushInterval: -1,
	}
	handler, err := transcoding(
		proxy,
		vanguard.WithTargetProtocols(vanguard.ProtocolGRPC),
		vanguard.WithTargetCodecs(vanguard.CodecProto),
	)
	if err != nil {
		stop()
		return nil, nil, err
	}
	return handler, func() {
		transport.CloseIdleConnections()
		stop()
	}, nil
}

func transcoding(handler http.Handler, more ...vanguard.ServiceOption) (http.Handler, error) {
	options := append(more, vanguard.WithMaxMessageBufferBytes(maxMessage))
	service := vanguard.NewService(librarypbconnect.LibraryName, handler, options...)
	return vanguard.NewTranscoder(
		[]*vanguard.Service{service},
		vanguard.WithUnknownHandler(handler),
		// As the others write it: without the fields that are empty.
		vanguard.WithCodec(func(types vanguard.TypeResolver) vanguard.Codec {
			codec := vanguard.NewJSONCodec(types)
			codec.MarshalOptions = protojson.MarshalOptions{Resolver: types}
			codec.UnmarshalOptions = protojson.UnmarshalOptions{Resolver: types}
			return codec
		}),
	)
}

// The gateway before a gRPC server that it dials, as its documentation recommends: calls by
// RegisterLibraryHandlerServer go past grpc-go, have no streams and no interceptors.
func newGateway(books *library.Library) (http.Handler, func(), error) {
	address, end, err := behind(books)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop := func() {
		cancel()
		end()
	}
	mux := newGatewayMux()
	dial := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	err = librarypb.RegisterLibraryHandlerFromEndpoint(ctx, mux, address, dial)
	if err != nil {
		stop()
		return nil, nil, err
	}
	return limited(mux), stop, nil
}

// A gRPC server of this process that a proxy passes calls on to, and what ends it.
func behind(books *library.Library) (string, func(), error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := newGRPC(books)
	go func() {
		// It returns once it is stopped; before that, calls fail and tell why.
		_ = server.Serve(listener)
	}()
	return listener.Addr().String(), server.Stop, nil
}
