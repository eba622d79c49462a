package library

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"trilane.test/servers/go-library/librarypb"
)

// Connect is the library as connect-go asks for it.
type Connect struct {
	Library *Library
}

// GetBook answers with one book.
func (c *Connect) GetBook(
	_ context.Context, request *connect.Request[librarypb.GetBookRequest],
) (*connect.Response[librarypb.Book], error) {
	return answer(c.Library.Get(request.Msg))
}

// ListBooks answers with a page of books.
func (c *Connect) ListBooks(
	_ context.Context, request *connect.Request[librarypb.ListBooksRequest],
) (*connect.Response[librarypb.ListBooksResponse], error) {
	return answer(c.Library.List(request.Msg))
}

// CreateBook answers with the new book.
func (c *Connect) CreateBook(
	_ context.Context, request *connect.Request[librarypb.CreateBookRequest],
) (*connect.Response[librarypb.Book], error) {
	return answer(c.Library.Create(request.Msg))
}

// UpdateBook answers with the book as it is then.
func (c *Connect) UpdateBook(
	_ context.Context, request *connect.Request[librarypb.UpdateBookRequest],
) (*connect.Response[librarypb.Book], error) {
	return answer(c.Library.Update(request.Msg))
}

// DeleteBook removes a book.
func (c *Connect) DeleteBook(
	_ context.Context, request *connect.Request[librarypb.DeleteBookRequest],
) (*connect.Response[emptypb.Empty], error) {
	return answer(&emptypb.Empty{}, c.Library.Delete(request.Msg))
}

// WatchBooks sends books and changes.
func (c *Connect) WatchBooks(
	ctx context.Context,
	request *connect.Request[librarypb.WatchBooksRequest],
	stream *connect.ServerStream[librarypb.WatchBooksResponse],
) error {
	return failure(c.Library.Watch(ctx, request.Msg, stream.Send))
}

// ImportBooks creates a book for each message.
func (c *Connect) ImportBooks(
	_ context.Context, stream *connect.ClientStream[librarypb.CreateBookRequest],
) (*connect.Response[librarypb.ImportBooksResponse], error) {
	imported := &librarypb.ImportBooksResponse{}
	for stream.Receive() {
		if _, err := c.Library.Create(stream.Msg()); err != nil {
			return nil, failure(err)
		}
		imported.Created++
	}
	return answer(imported, stream.Err())
}

// LookUpBooks answers each message with its book.
func (c *Connect) LookUpBooks(
	_ context.Context, stream *connect.BidiStream[librarypb.GetBookRequest, librarypb.Book],
) error {
	for {
		request, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		book, err := c.Library.Get(request)
		if err != nil {
			return failure(err)
		}
		if err := stream.Send(book); err != nil {
			return err
		}
	}
}

func answer[T any](message *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, failure(err)
	}
	return connect.NewResponse(message), nil
}

// The library's errors are grpc-go's; Connect's codes are the same numbers.
func failure(err error) error {
	told, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	return connect.NewError(connect.Code(told.Code()), errors.New(told.Message()))
}
