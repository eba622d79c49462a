// Command generate makes the code of the package librarypb from the library's .proto file: messages,
// gRPC, Connect and the gateway. It needs neither protoc nor a network: the compiler is a library,
// the plugins are tools of this module.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	source = "trilane/library/v1/library.proto"
	// What go_package says of this module; the rest of it is the folder.
	module    = "trilane.test/servers/go-library"
	pluginEnd = 5 * time.Minute
)

var plugins = []struct {
	tool, parameter string
	// What the plugin is to see of the file.
	of func(*descriptorpb.FileDescriptorProto) (*descriptorpb.FileDescriptorProto, error)
}{
	{tool: "protoc-gen-go"},
	{tool: "protoc-gen-go-grpc"},
	{tool: "protoc-gen-connect-go"},
	{
		tool: "protoc-gen-grpc-gateway",
		// The gateway would make up an update mask; the other implementations then change all fields.
		parameter: "allow_patch_feature=false",
		of:        withoutCustomRules,
	},
}

func main() {
	protos := flag.String("proto", "../../proto", "folder of the .proto files")
	out := flag.String("out", ".", "folder of the module, to write to")
	flag.Parse()
	files, err := generate(*protos)
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(*out, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// The generated files: text by path within the module.
func generate(protos string) (map[string]string, error) {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(
			&protocompile.SourceResolver{ImportPaths: []string{protos}},
		),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(context.Background(), source)
	if err != nil {
		return nil, err
	}
	inOrder := dependenciesFirst(compiled[0], map[string]bool{})
	last := len(inOrder) - 1
	files := map[string]string{}
	for _, plugin := range plugins {
		request := &pluginpb.CodeGeneratorRequest{
			FileToGenerate: []string{source},
			ProtoFile:      slices.Clone(inOrder),
		}
		if plugin.of != nil {
			if request.ProtoFile[last], err = plugin.of(inOrder[last]); err != nil {
				return nil, fmt.Errorf("%s: %w", plugin.tool, err)
			}
		}
		parameter := "module=" + module
		if plugin.parameter != "" {
			parameter += "," + plugin.parameter
		}
		request.Parameter = &parameter
		response, err := run(plugin.tool, request)
		if err != nil {
			return nil, err
		}
		for _, file := range response.File {
			files[file.GetName()] = file.GetContent()
		}
	}
	return files, nil
}

func dependenciesFirst(
	file protoreflect.FileDescriptor, seen map[string]bool,
) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return nil
	}
	seen[file.Path()] = true
	var files []*descriptorpb.FileDescriptorProto
	for i := range file.Imports().Len() {
		files = append(files, dependenciesFirst(file.Imports().Get(i), seen)...)
	}
	return append(files, protodesc.ToFileDescriptorProto(file))
}

// The gateway's plugin knows the five HTTP methods that a rule has fields for, and writes Go that does
// not compile for a custom one.
func withoutCustomRules(
	compiled *descriptorpb.FileDescriptorProto,
) (*descriptorpb.FileDescriptorProto, error) {
	// The compiler's options are dynamic messages; parsed once more they have Go types.
	content, err := proto.Marshal(compiled)
	if err != nil {
		return nil, err
	}
	file := &descriptorpb.FileDescriptorProto{}
	if err := proto.Unmarshal(content, file); err != nil {
		return nil, err
	}
	for _, service := range file.Service {
		for _, method := range service.Method {
			rule, _ := proto.GetExtension(method.GetOptions(), annotations.E_Http).(*annotations.HttpRule)
			if rule.GetCustom() != nil {
				proto.ClearExtension(method.Options, annotations.E_Http)
			}
		}
	}
	return file, nil
}

func run(tool string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), pluginEnd)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "tool", tool)
	command.Stdin = bytes.NewReader(input)
	var errors strings.Builder
	command.Stderr = &errors
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", tool, err, errors.String())
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(output, response); err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s: %s", tool, response.GetError())
	}
	return response, nil
}
