package library

import (
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"trilane.test/servers/go-library/librarypb"
)

func expect(t *testing.T, err error, code codes.Code, words string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), words) {
		t.Errorf("%v, not %s with %q", err, code, words)
	}
}

func TestTheContentAtTheStart(t *testing.T) {
	library := New()
	for name, want := range map[string]*librarypb.Book{
		"shelves/1/books/1":    {Author: "Author 8", Title: "Book 1 of shelf 1", Pages: 101},
		"shelves/10/books/100": {Author: "Author 73", Title: "Book 100 of shelf 10", Pages: 200, Read: true},
		"shelves/2/books/83":   {Author: "Author 0", Title: "Book 83 of shelf 2", Pages: 183},
	} {
		want.Name = name
		book, err := library.Get(&librarypb.GetBookRequest{Name: name})
		if err != nil || !proto.Equal(book, want) {
			t.Errorf("%v, %v", book, err)
		}
	}
}

func TestNames(t *testing.T) {
	library := New()
	for _, name := range []string{
		"", "shelves", "shelves/1", "shelves/1/books/", "shelves//books/1", "shelves/01/books/1",
		"shelves/00/books/1", "shelves/+1/books/1", "shelves/1/books/1/", "shelves/1/books/1x",
		"Shelves/1/books/1", "shelves/1/books/4294967296", "shelves/1/books/٣",
	} {
		_, err := library.Get(&librarypb.GetBookRequest{Name: name})
		expect(t, err, codes.InvalidArgument, "it looks like shelves/1/books/1")
	}
	for _, name := range []string{
		"shelves/11/books/1", "shelves/1/books/101", "shelves/0/books/0", "shelves/1/books/4294967295",
	} {
		_, err := library.Get(&librarypb.GetBookRequest{Name: name})
		expect(t, err, codes.NotFound, "there is no book "+name)
	}
	_, err := library.List(&librarypb.ListBooksRequest{Parent: "shelves/1/books/1"})
	expect(t, err, codes.InvalidArgument, "it looks like shelves/1")
	_, err = library.List(&librarypb.ListBooksRequest{Parent: "shelves/11"})
	expect(t, err, codes.NotFound, "there is no shelf shelves/11")
}

func TestPages(t *testing.T) {
	library := New()
	request := &librarypb.ListBooksRequest{Parent: "shelves/4"}
	var got []string
	for pages := 1; ; pages++ {
		page, err := library.List(request)
		if err != nil {
			t.Fatal(err)
		}
		for _, book := range page.Books {
			got = append(got, book.Name)
		}
		if request.PageToken = page.NextPageToken; request.PageToken == "" {
			if pages != 5 || len(got) != 100 || got[99] != "shelves/4/books/100" {
				t.Errorf("%d pages, %d books", pages, len(got))
			}
			break
		}
	}
	page, err := library.List(&librarypb.ListBooksRequest{Parent: "shelves/4", PageSize: 1000})
	if err != nil || len(page.Books) != 100 || page.NextPageToken != "" {
		t.Error(len(page.GetBooks()), page.GetNextPageToken(), err)
	}
	_, err = library.List(&librarypb.ListBooksRequest{Parent: "shelves/4", PageSize: -1})
	expect(t, err, codes.InvalidArgument, "page_size: -1 is below 0")
	for _, token := range []string{"x", "!", token(5, 20)} {
		_, err = library.List(&librarypb.ListBooksRequest{Parent: "shelves/4", PageToken: token})
		expect(t, err, codes.InvalidArgument, "is not the next_page_token")
	}
}

func TestFilters(t *testing.T) {
	library := New()
	page, err := library.List(&librarypb.ListBooksRequest{
		Parent: "shelves/1",
		Filter: &librarypb.ListBooksRequest_Filter{
			Authors: []string{"Author 10", "Author 11", "nobody"}, Read: proto.Bool(false), MinPages: 104,
		},
	})
	// Authors 10 and 11 wrote books 3, 4 and 100.
	if err != nil || len(page.Books) != 0 {
		t.Error(page, err)
	}
	page, err = library.List(&librarypb.ListBooksRequest{
		Parent: "shelves/1",
		Filter: &librarypb.ListBooksRequest_Filter{Authors: []string{"Author 10", "Author 11"}},
	})
	if err != nil || len(page.Books) != 3 || page.Books[2].Name != "shelves/1/books/100" {
		t.Error(page, err)
	}
}

func TestMasks(t *testing.T) {
	library := New()
	name := "shelves/1/books/1"
	update := func(book *librarypb.Book, paths ...string) (*librarypb.Book, error) {
		book.Name = name
		return library.Update(&librarypb.UpdateBookRequest{
			Book: book, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths},
		})
	}
	book, err := update(&librarypb.Book{
		Title: "no", Edition: &librarypb.Edition{Publisher: "P", Year: 1999},
	}, "edition.publisher", "author")
	want := &librarypb.Book{
		Name: name, Title: "Book 1 of shelf 1", Pages: 101,
		Edition: &librarypb.Edition{Publisher: "P"},
	}
	if err != nil || !proto.Equal(book, want) {
		t.Error(book, err)
	}
	book, err = update(&librarypb.Book{}, "edition", "pages")
	want.Edition, want.Pages = nil, 0
	if err != nil || !proto.Equal(book, want) {
		t.Error(book, err)
	}
	book, err = update(&librarypb.Book{}, "edition.year")
	want.Edition = &librarypb.Edition{}
	if err != nil || !proto.Equal(book, want) {
		t.Error(book, err)
	}
	for _, all := range [][]string{nil, {"*"}} {
		book, err = update(&librarypb.Book{Author: "All"}, all...)
		if err != nil || !proto.Equal(book, &librarypb.Book{Name: name, Author: "All"}) {
			t.Error(book, err)
		}
	}
	for _, path := range []string{"titel", "", "title.x", "edition.", "labels.0"} {
		_, err = update(&librarypb.Book{}, path)
		expect(t, err, codes.InvalidArgument, "is no field of a book")
	}
	_, err = library.Update(&librarypb.UpdateBookRequest{})
	expect(t, err, codes.InvalidArgument, "book is missing")
}

func TestWhatIsReadIsNotWrittenToLater(t *testing.T) {
	library := New()
	name := "shelves/1/books/1"
	before, err := library.Get(&librarypb.GetBookRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	given := &librarypb.Book{Name: name, Title: "Changed"}
	if _, err = library.Update(&librarypb.UpdateBookRequest{Book: given}); err != nil {
		t.Fatal(err)
	}
	given.Title = "by the caller"
	after, err := library.Get(&librarypb.GetBookRequest{Name: name})
	if err != nil || before.Title != "Book 1 of shelf 1" || after.Title != "Changed" {
		t.Error(before, after, err)
	}
}

func TestBounds(t *testing.T) {
	library := New()
	create := func(book *librarypb.Book) (*librarypb.Book, error) {
		return library.Create(&librarypb.CreateBookRequest{Parent: "shelves/2", Book: book})
	}
	_, err := create(nil)
	expect(t, err, codes.InvalidArgument, "book is missing")
	_, err = create(&librarypb.Book{Labels: make([]string, maxLabels+1)})
	expect(t, err, codes.ResourceExhausted, "book.labels: 101 are more than 100")
	long := strings.Repeat("ü", maxCharacters)
	_, err = create(&librarypb.Book{Labels: []string{long + "ü"}})
	expect(t, err, codes.ResourceExhausted, "book.labels: a text of more than 1000 characters")
	var last *librarypb.Book
	for range maxCreated {
		if last, err = create(&librarypb.Book{Title: "New"}); err != nil {
			t.Fatal(err)
		}
	}
	if last.Name != "shelves/2/books/10100" {
		t.Error(last.Name)
	}
	_, err = create(&librarypb.Book{})
	expect(t, err, codes.ResourceExhausted, "10000 books have been created")
	if err = library.Delete(&librarypb.DeleteBookRequest{Name: last.Name}); err != nil {
		t.Fatal(err)
	}
	expect(t, library.Delete(&librarypb.DeleteBookRequest{Name: last.Name}), codes.NotFound, "no book")
	if last, err = create(&librarypb.Book{}); err != nil || last.Name != "shelves/2/books/10101" {
		t.Error(last, err)
	}
}

func TestStoredBytesAreBounded(t *testing.T) {
	library := New()
	labels := make([]string, maxLabels)
	for i := range labels {
		labels[i] = strings.Repeat("ü", maxCharacters)
	}
	big := &librarypb.CreateBookRequest{Parent: "shelves/1", Book: &librarypb.Book{Labels: labels}}
	created := 0
	var err error
	for ; err == nil && created <= maxCreated; created++ {
		_, err = library.Create(big)
	}
	expect(t, err, codes.ResourceExhausted, "fill 67108864 bytes")
	if created < 300 || created > 400 {
		t.Errorf("%d books fit", created)
	}
	small := &librarypb.Book{Name: "shelves/1/books/101"}
	if _, err = library.Update(&librarypb.UpdateBookRequest{Book: small}); err != nil {
		t.Error(err)
	}
	if _, err = library.Create(big); err != nil {
		t.Error(err)
	}
	small.Labels = labels
	_, err = library.Update(&librarypb.UpdateBookRequest{Book: small})
	expect(t, err, codes.ResourceExhausted, "delete some")
}

func TestManyAtOnce(t *testing.T) {
	library := New()
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 100 {
				request := &librarypb.CreateBookRequest{Parent: "shelves/3", Book: &librarypb.Book{}}
				book, err := library.Create(request)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := library.Get(&librarypb.GetBookRequest{Name: book.Name}); err != nil {
					t.Error(err)
				}
				if err := library.Delete(&librarypb.DeleteBookRequest{Name: book.Name}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	if library.created != 0 || library.stored != 0 {
		t.Errorf("%d books of %d bytes are left", library.created, library.stored)
	}
}
