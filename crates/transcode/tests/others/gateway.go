package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// openGateway does by descriptors what the code does that protoc-gen-grpc-gateway generates: the paths,
// the parameters and the content are for its runtime to read.
func openGateway(files *protoregistry.Files, service protoreflect.ServiceDescriptor) (http.Handler, error) {
	if err := registerEnums(files); err != nil {
		return nil, err
	}
	mux := runtime.NewServeMux()
	methods := service.Methods()
	for number := range methods.Len() {
		method := methods.Get(number)
		for _, rule := range rules(method) {
			verb, path := pattern(rule)
			if verb == "*" {
				// Its patterns have one method of HTTP each.
				continue
			}
			if err := mux.HandlePath(verb, path, handler(mux, method, rule)); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return mux, nil
}

// registerEnums makes the names of values known: the runtime asks the global registry.
func registerEnums(files *protoregistry.Files) error {
	var err error
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if _, known := protoregistry.GlobalFiles.FindFileByPath(file.Path()); known == nil {
			return true
		}
		enums := file.Enums()
		for number := range enums.Len() {
			found := protoregistry.GlobalTypes.RegisterEnum(dynamicpb.NewEnumType(enums.Get(number)))
			err = errors.Join(err, found)
		}
		return true
	})
	return err
}

// rules are those of a method's options, which have been read without their type.
func rules(method protoreflect.MethodDescriptor) []*annotations.HttpRule {
	encoded, err := proto.Marshal(method.Options())
	if err != nil {
		return nil
	}
	var options descriptorpb.MethodOptions
	if err := proto.Unmarshal(encoded, &options); err != nil {
		return nil
	}
	rule, ok := proto.GetExtension(&options, annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return nil
	}
	return append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...)
}

func pattern(rule *annotations.HttpRule) (string, string) {
	switch found := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return http.MethodGet, found.Get
	case *annotations.HttpRule_Put:
		return http.MethodPut, found.Put
	case *annotations.HttpRule_Post:
		return http.MethodPost, found.Post
	case *annotations.HttpRule_Delete:
		return http.MethodDelete, found.Delete
	case *annotations.HttpRule_Patch:
		return http.MethodPatch, found.Patch
	case *annotations.HttpRule_Custom:
		return found.Custom.GetKind(), found.Custom.GetPath()
	}
	return "", ""
}

func handler(
	mux *runtime.ServeMux, method protoreflect.MethodDescriptor, rule *annotations.HttpRule,
) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		inbound, outbound := runtime.MarshalerForRequest(mux, r)
		ctx := context.Background()
		request := dynamicpb.NewMessage(method.Input())
		if err := read(request, inbound, rule.GetBody(), r, params); err != nil {
			failed := status.Error(codes.InvalidArgument, err.Error())
			runtime.HTTPError(ctx, mux, outbound, w, r, failed)
			return
		}
		encoded, err := proto.Marshal(request)
		if err != nil {
			runtime.HTTPError(ctx, mux, outbound, w, r, err)
			return
		}
		service := method.Parent().FullName()
		w.Header().Set("Echo-Method", fmt.Sprintf("/%s/%s", service, method.Name()))
		w.Header().Set("Echo-Request", base64.StdEncoding.EncodeToString(encoded))
		runtime.ForwardResponseMessage(ctx, mux, outbound, w, r, request)
	}
}

// read fills a request: from the content, then the path, then the query, as generated code does.
func read(
	request *dynamicpb.Message, inbound runtime.Marshaler, body string, r *http.Request,
	params map[string]string,
) error {
	var bound [][]string
	if body != "" {
		if body != "*" {
			bound = append(bound, []string{body})
		}
		if err := readBody(request, inbound, body, r.Body); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	for name, value := range params {
		bound = append(bound, strings.Split(name, "."))
		if err := runtime.PopulateFieldFromPath(request, name, value); err != nil {
			return err
		}
	}
	if body == "*" {
		return nil
	}
	if err := r.ParseForm(); err != nil {
		return err
	}
	return runtime.PopulateQueryParameters(request, r.Form, utilities.NewDoubleArray(bound))
}

func readBody(
	request *dynamicpb.Message, inbound runtime.Marshaler, body string, content io.Reader,
) error {
	if body == "*" {
		return inbound.NewDecoder(content).Decode(request)
	}
	field := request.Descriptor().Fields().ByName(protoreflect.Name(body))
	if field.Message() != nil && !field.IsMap() && !field.IsList() {
		return inbound.NewDecoder(content).Decode(request.Mutable(field).Message().Interface())
	}
	// Generated code decodes into a field of Go's; here the field is one of a message around it.
	value, err := io.ReadAll(content)
	if err != nil || len(value) == 0 {
		return err
	}
	around := fmt.Appendf(nil, "{%q:%s}", field.JSONName(), value)
	return inbound.NewDecoder(bytes.NewReader(around)).Decode(request)
}
