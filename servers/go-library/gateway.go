package main

import (
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
)

// The gateway's own marshaler calls what it writes application/octet-stream.
type protobufMarshaler struct {
	runtime.ProtoMarshaller
	mediaType string
}

func (m *protobufMarshaler) ContentType(any) string {
	return m.mediaType
}

// JSON, and binary protobuf where `Accept` or `Content-Type` asks for it.
func newGatewayMux() *runtime.ServeMux {
	options := []runtime.ServeMuxOption{
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{
			// As the others write it: without the fields that are empty.
			MarshalOptions: protojson.MarshalOptions{},
		}),
	}
	for _, mediaType := range []string{"application/protobuf", "application/x-protobuf"} {
		options = append(options, runtime.WithMarshalerOption(
			mediaType, &protobufMarshaler{mediaType: mediaType},
		))
	}
	return runtime.NewServeMux(options...)
}

func limited(handler http.Handler) http.Handler {
	return http.MaxBytesHandler(handler, maxMessage)
}
