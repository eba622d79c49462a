package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"trilane.test/servers/go-library/librarypb"
	"trilane.test/servers/go-library/librarypb/librarypbconnect"
)

var (
	every = []string{"h1", "h1c", "h2", "h2c", "h3"}
	two   = []string{"h2", "h2c"}
	multi = []string{"h2", "h2c", "h3"}
)

// What each implementation is asked for, over which versions.
var asked = map[string]map[string][]string{
	"grpc":      {"grpc": two},
	"grpc-http": {"grpc": two},
	"vanguard": {
		"rest-json": every, "connect-json": every, "connect-protobuf": every,
		// It refuses gRPC over anything but HTTP/2.
		"grpc-web": every, "grpc": two,
	},
	"gateway": {"rest-json": every, "rest-protobuf": every},
	"connect": {"connect-json": every, "connect-protobuf": every, "grpc-web": every, "grpc": multi},
}

// Options of connect-go's client, by what it is to speak.
var spoken = map[string][]connect.ClientOption{
	"connect-json":     {connect.WithProtoJSON()},
	"connect-protobuf": {},
	"grpc":             {connect.WithGRPC()},
	"grpc-web":         {connect.WithGRPCWeb()},
}

func TestEveryCallAnswersTheSameBook(t *testing.T) {
	want := &librarypb.Book{
		Name: "shelves/3/books/42", Author: "Author 63", Title: "Book 42 of shelf 3",
		Pages: 142, Read: true,
	}
	for name := range implementations {
		server := begin(t, name)
		for call, versions := range asked[name] {
			for _, version := range versions {
				t.Run(fmt.Sprintf("%s/%s/%s", name, call, version), func(t *testing.T) {
					got, err := getBook(t, server, call, version, want.Name)
					if err != nil {
						t.Fatal(err)
					}
					if !proto.Equal(got, want) {
						t.Errorf("%v instead of %v", got, want)
					}
					_, err = getBook(t, server, call, version, "shelves/3/books/1000")
					if connect.CodeOf(err) != connect.CodeNotFound {
						t.Errorf("%v, not that it is missing", err)
					}
				})
			}
		}
	}
}

// One call by the format's own client.
func getBook(
	t *testing.T, server *started, call, version, name string,
) (*librarypb.Book, error) {
	client := server.client(t, version)
	if mediaType, rest := strings.CutPrefix(call, "rest-"); rest {
		return getREST(t, client, server.origin(version), mediaType, name)
	}
	library := librarypbconnect.NewLibraryClient(client, server.origin(version), spoken[call]...)
	request := connect.NewRequest(&librarypb.GetBookRequest{Name: name})
	answer, err := library.GetBook(timed(t), request)
	if err != nil {
		return nil, err
	}
	return answer.Msg, nil
}

func getREST(
	t *testing.T, client *http.Client, origin, subtype, name string,
) (*librarypb.Book, error) {
	request, err := http.NewRequestWithContext(timed(t), "GET", origin+"/v1/"+name, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/"+subtype)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if got := response.Header.Get("Content-Type"); got != "application/"+subtype {
		t.Errorf("the content is %s", got)
	}
	if response.StatusCode == http.StatusNotFound {
		return nil, connect.NewError(connect.CodeNotFound, errors.New(string(content)))
	}
	book := &librarypb.Book{}
	if subtype == "protobuf" {
		return book, proto.Unmarshal(content, book)
	}
	return book, protojson.Unmarshal(content, book)
}

func TestTheirOwnClientHasAllMethods(t *testing.T) {
	for _, name := range []string{"grpc", "grpc-http", "vanguard", "connect"} {
		for _, version := range two {
			t.Run(name+"/"+version, func(t *testing.T) {
				server := begin(t, name)
				allMethods(t, librarypb.NewLibraryClient(server.dial(t, version)))
			})
		}
	}
}

func allMethods(t *testing.T, client librarypb.LibraryClient) {
	ctx := timed(t)
	shelf, first := "shelves/1", "shelves/1/books/1"
	page, err := client.ListBooks(ctx, &librarypb.ListBooksRequest{Parent: shelf, PageSize: 100})
	if err != nil || len(page.Books) != 100 {
		t.Fatal(page, err)
	}
	made, err := client.CreateBook(ctx, &librarypb.CreateBookRequest{
		Parent: shelf, Book: &librarypb.Book{Name: "no matter", Title: "New"},
	})
	if err != nil || made.Name != "shelves/1/books/101" || made.Title != "New" {
		t.Fatal(made, err)
	}
	changed, err := client.UpdateBook(ctx, &librarypb.UpdateBookRequest{
		Book:       &librarypb.Book{Name: first, Title: "Changed"},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"title"}},
	})
	if err != nil || changed.Title != "Changed" || changed.Pages != 101 {
		t.Fatal(changed, err)
	}
	if _, err := client.DeleteBook(ctx, &librarypb.DeleteBookRequest{Name: made.Name}); err != nil {
		t.Fatal(err)
	}
	watch, err := client.WatchBooks(ctx, &librarypb.WatchBooksRequest{Parent: shelf, Count: 102})
	if err != nil {
		t.Fatal(err)
	}
	var watched []string
	for message, err := watch.Recv(); !errors.Is(err, io.EOF); message, err = watch.Recv() {
		if err != nil {
			t.Fatal(err)
		}
		watched = append(watched, message.Book.Name)
	}
	if len(watched) != 102 || watched[0] != first || watched[100] != first {
		t.Errorf("%d books: %v", len(watched), watched)
	}
	imports, err := client.ImportBooks(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		request := &librarypb.CreateBookRequest{Parent: shelf, Book: &librarypb.Book{}}
		if err := imports.Send(request); err != nil {
			t.Fatal(err)
		}
	}
	if imported, err := imports.CloseAndRecv(); err != nil || imported.Created != 3 {
		t.Fatal(imported, err)
	}
	lookUp, err := client.LookUpBooks(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// Each answer before the next question.
	for b := 1; b <= 5; b++ {
		name := fmt.Sprintf("shelves/2/books/%d", b)
		if err := lookUp.Send(&librarypb.GetBookRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
		if book, err := lookUp.Recv(); err != nil || book.Name != name {
			t.Fatal(book, err)
		}
	}
	if err := lookUp.Send(&librarypb.GetBookRequest{Name: made.Name}); err != nil {
		t.Fatal(err)
	}
	if _, err := lookUp.Recv(); !strings.Contains(fmt.Sprint(err), "there is no book "+made.Name) {
		t.Error(err)
	}
}

func TestReflectionKnowsTheLibrary(t *testing.T) {
	for _, name := range []string{"grpc", "grpc-http", "vanguard", "connect"} {
		t.Run(name, func(t *testing.T) {
			server := begin(t, name)
			client := grpcreflect.NewClient(
				server.client(t, "h2"), server.origin("h2"), connect.WithGRPC(),
			)
			stream := client.NewStream(timed(t))
			defer func() { _, _ = stream.Close() }()
			services, err := stream.ListServices()
			if err != nil || !slices.Contains(services, librarypbconnect.LibraryName) {
				t.Fatal(services, err)
			}
			files, err := stream.FileContainingSymbol(librarypbconnect.LibraryName)
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
		})
	}
}

func TestHealthOfTheLibrary(t *testing.T) {
	for _, name := range []string{"grpc", "grpc-http"} {
		for _, version := range two {
			t.Run(name+"/"+version, func(t *testing.T) {
				client := grpc_health_v1.NewHealthClient(begin(t, name).dial(t, version))
				answer, err := client.Check(timed(t), &grpc_health_v1.HealthCheckRequest{
					Service: librarypbconnect.LibraryName,
				})
				if err != nil || answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
					t.Error(answer, err)
				}
			})
		}
	}
}

func TestTheEndDoesNotWaitForFollowers(t *testing.T) {
	for name, calls := range asked {
		if _, can := calls["grpc"]; !can {
			continue
		}
		t.Run(name, func(t *testing.T) {
			server := begin(t, name)
			client := librarypb.NewLibraryClient(server.dial(t, "h2c"))
			stream, err := client.WatchBooks(timed(t), &librarypb.WatchBooksRequest{
				Parent: "shelves/1", Follow: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 100 {
				if _, err := stream.Recv(); err != nil {
					t.Fatal(err)
				}
			}
			server.stop()
			if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
				t.Error(err)
			}
		})
	}
}

func TestTheGatewayStreamsLines(t *testing.T) {
	server := begin(t, "gateway")
	client := server.client(t, "h1c")
	response, err := client.Get(server.origin("h1c") + "/v1/shelves/1/books:watch?count=3")
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	if len(lines) != 3 || !strings.Contains(lines[2], "shelves/1/books/3") {
		t.Errorf("%q", content)
	}
}

func TestAllButNativeGRPCSayHello(t *testing.T) {
	for name, versions := range map[string][]string{
		"grpc-http": {"h1", "h1c", "h2", "h2c"},
		"vanguard":  every, "gateway": every, "connect": every,
	} {
		server := begin(t, name)
		for _, version := range versions {
			t.Run(name+"/"+version, func(t *testing.T) {
				response, err := server.client(t, version).Get(server.origin(version) + "/hello")
				if err != nil {
					t.Fatal(err)
				}
				content, err := io.ReadAll(response.Body)
				if err = errors.Join(err, response.Body.Close()); err != nil {
					t.Fatal(err)
				}
				if response.StatusCode != http.StatusOK || string(content) != "hello world" {
					t.Errorf("%d %q", response.StatusCode, content)
				}
			})
		}
	}
}

func TestTooLongAMessageIsRefused(t *testing.T) {
	for name, calls := range asked {
		if _, can := calls["grpc"]; !can {
			continue
		}
		t.Run(name, func(t *testing.T) {
			server := begin(t, name)
			client := librarypbconnect.NewLibraryClient(
				server.client(t, "h2"), server.origin("h2"), connect.WithGRPC(),
			)
			request := connect.NewRequest(&librarypb.GetBookRequest{
				Name: strings.Repeat("x", maxMessage+1),
			})
			_, err := client.GetBook(timed(t), request)
			if connect.CodeOf(err) != connect.CodeResourceExhausted {
				t.Errorf("%.300v", err)
			}
		})
	}
}
