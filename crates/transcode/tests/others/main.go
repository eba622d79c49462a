// Serves the methods of a file descriptor set by vanguard or by grpc-gateway's runtime, as second opinions
// on google.api.http.
//
// Every method answers with the request it got: as the response, and, in the field Echo-Request, as
// binary Protocol Buffers in base64. A request whose header Fail holds a code of Connect is answered
// with an error of this code. The program ends when its input does.
package main

import (
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"connectrpc.com/vanguard"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

const largestRequest = 1 << 20

func main() {
	descriptors := flag.String("descriptors", "", "the file descriptor set")
	service := flag.String("service", "", "full name of the service")
	by := flag.String("by", "vanguard", "vanguard or grpc-gateway")
	flag.Parse()
	transcoder, err := open(*by, *descriptors, protoreflect.FullName(*service))
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	server := &http.Server{
		Handler:           transcoder,
		ReadHeaderTimeout: 10 * time.Second,
		// vanguard panics at some of the requests; the status says so too.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	log.Fatal(server.Serve(listener))
}

func open(by, path string, service protoreflect.FullName) (http.Handler, error) {
	encoded, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(encoded, &set); err != nil {
		return nil, err
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, err
	}
	found, err := files.FindDescriptorByName(service)
	if err != nil {
		return nil, err
	}
	if by == "grpc-gateway" {
		return openGateway(files, found.(protoreflect.ServiceDescriptor))
	}
	types := dynamicpb.NewTypes(files)
	// The JSON mapping's own defaults: unknown fields are refused, what is not set is left out.
	codec := func(resolver vanguard.TypeResolver) vanguard.Codec {
		return vanguard.JSONCodec{
			MarshalOptions:   protojson.MarshalOptions{Resolver: resolver},
			UnmarshalOptions: protojson.UnmarshalOptions{Resolver: resolver},
		}
	}
	mounted := vanguard.NewServiceWithSchema(
		found.(protoreflect.ServiceDescriptor),
		http.HandlerFunc(answer),
		vanguard.WithTargetProtocols(vanguard.ProtocolConnect),
		vanguard.WithTargetCodecs(vanguard.CodecProto),
		vanguard.WithNoTargetCompression(),
		vanguard.WithTypeResolver(types),
	)
	return vanguard.NewTranscoder([]*vanguard.Service{mounted}, vanguard.WithCodec(codec))
}

func answer(w http.ResponseWriter, r *http.Request) {
	request, err := io.ReadAll(io.LimitReader(r.Body, largestRequest))
	if err != nil {
		// Reading is where vanguard converts; it has answered by itself.
		return
	}
	if code := r.Header.Get("Fail"); code != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"code":%q,"message":"as told","details":[{"type":%q,"value":%q}]}`,
			code, r.Header.Get("Fail-Type"), r.Header.Get("Fail-Value"))
		return
	}
	w.Header().Set("Content-Type", "application/proto")
	w.Header().Set("Echo-Method", r.URL.Path)
	w.Header().Set("Echo-Request", base64.StdEncoding.EncodeToString(request))
	_, _ = w.Write(request)
}
