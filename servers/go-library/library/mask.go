package library

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"trilane.test/servers/go-library/librarypb"
)

// The paths of a mask; none of one that names all fields, as an empty one does.
func pathsOf(mask *fieldmaskpb.FieldMask) ([]string, error) {
	if slices.Contains(mask.GetPaths(), "*") {
		return nil, nil
	}
	for _, path := range mask.GetPaths() {
		if _, err := fieldmaskpb.New((*librarypb.Book)(nil), path); err != nil {
			return nil, status.Errorf(codes.InvalidArgument,
				"update_mask: %.100q is no field of a book", path)
		}
	}
	return mask.GetPaths(), nil
}

// Makes the field at `path` of one message what it is in the other.
func assign(to, from protoreflect.Message, path string) {
	first, rest, nested := strings.Cut(path, ".")
	field := to.Descriptor().Fields().ByName(protoreflect.Name(first))
	switch {
	case nested:
		// Of an absent message all fields read as empty.
		assign(to.Mutable(field).Message(), from.Get(field).Message(), rest)
	case from.Has(field):
		to.Set(field, from.Get(field))
	default:
		to.Clear(field)
	}
}
