// Command interop prints the service of gRPC's interoperability tests as a FileDescriptorSet: the
// server that grpc-go has for them offers no reflection, and their .proto files are in no Go module.
package main

import (
	"log"
	"os"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

func main() {
	set := &descriptorpb.FileDescriptorSet{}
	add(set, testgrpc.File_grpc_testing_test_proto, map[string]bool{})
	content, err := proto.Marshal(set)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := os.Stdout.Write(content); err != nil {
		log.Fatal(err)
	}
}

// add appends a file to the set, behind those that it imports.
func add(set *descriptorpb.FileDescriptorSet, file protoreflect.FileDescriptor, seen map[string]bool) {
	if seen[file.Path()] {
		return
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for index := range imports.Len() {
		add(set, imports.Get(index).FileDescriptor, seen)
	}
	set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
}
