package library

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"trilane.test/servers/go-library/librarypb"
)

// GRPC is the library as grpc-go asks for it.
type GRPC struct {
	librarypb.UnimplementedLibraryServer
	Library *Library
}

// GetBook answers with one book.
func (g *GRPC) GetBook(
	_ context.Context, request *librarypb.GetBookRequest,
) (*librarypb.Book, error) {
	return g.Library.Get(request)
}

// ListBooks answers with a page of books.
func (g *GRPC) ListBooks(
	_ context.Context, request *librarypb.ListBooksRequest,
) (*librarypb.ListBooksResponse, error) {
	return g.Library.List(request)
}

// CreateBook answers with the new book.
func (g *GRPC) CreateBook(
	_ context.Context, request *librarypb.CreateBookRequest,
) (*librarypb.Book, error) {
	return g.Library.Create(request)
}

// UpdateBook answers with the book as it is then.
func (g *GRPC) UpdateBook(
	_ context.Context, request *librarypb.UpdateBookRequest,
) (*librarypb.Book, error) {
	return g.Library.Update(request)
}

// DeleteBook removes a book.
func (g *GRPC) DeleteBook(
	_ context.Context, request *librarypb.DeleteBookRequest,
) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, g.Library.Delete(request)
}

// WatchBooks sends books and changes.
func (g *GRPC) WatchBooks(
	request *librarypb.WatchBooksRequest,
	stream grpc.ServerStreamingServer[librarypb.WatchBooksResponse],
) error {
	return g.Library.Watch(stream.Context(), request, stream.Send)
}

// ImportBooks creates a book for each message.
func (g *GRPC) ImportBooks(
	stream grpc.ClientStreamingServer[librarypb.CreateBookRequest, librarypb.ImportBooksResponse],
) error {
	answer := &librarypb.ImportBooksResponse{}
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(answer)
		}
		if err != nil {
			return err
		}
		if _, err := g.Library.Create(request); err != nil {
			return err
		}
		answer.Created++
	}
}

// LookUpBooks answers each message with its book.
func (g *GRPC) LookUpBooks(
	stream grpc.BidiStreamingServer[librarypb.GetBookRequest, librarypb.Book],
) error {
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		book, err := g.Library.Get(request)
		if err != nil {
			return err
		}
		if err := stream.Send(book); err != nil {
			return err
		}
	}
}
