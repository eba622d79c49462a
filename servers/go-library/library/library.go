// Package library is the library service: its state, and what each method means. How a call
// arrives, and in which format, is not its business.
package library

import (
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"trilane.test/servers/go-library/librarypb"
)

const (
	shelves      = 10
	booksAtStart = 100
	maxCreated   = 10_000
	// Encoded bytes of all that callers have stored.
	maxStored     = 64 << 20
	maxLabels     = 100
	maxCharacters = 1_000
	pageDefault   = 20
	pageMost      = 100
)

// Library holds shelves of books. A book in it is never written to, only replaced, so that readers
// may keep what they got without a copy.
type Library struct {
	mu      sync.RWMutex
	shelves []*shelf
	created int
	stored  int
}

type shelf struct {
	number   int
	books    map[int]*librarypb.Book
	order    []int
	last     int
	watchers map[*watcher]struct{}
}

// New is a library with the content that every implementation starts with.
func New() *Library {
	library := &Library{}
	for s := 1; s <= shelves; s++ {
		shelf := &shelf{
			number:   s,
			books:    map[int]*librarypb.Book{},
			watchers: map[*watcher]struct{}{},
		}
		for b := 1; b <= booksAtStart; b++ {
			shelf.put(b, &librarypb.Book{
				Name:   name(s, b),
				Author: fmt.Sprintf("Author %d", (7*s+b)%97),
				Title:  fmt.Sprintf("Book %d of shelf %d", b, s),
				Pages:  int32(100 + b),
				Read:   b%2 == 0,
			})
		}
		library.shelves = append(library.shelves, shelf)
	}
	return library
}

// Get is the book of that name.
func (l *Library) Get(request *librarypb.GetBookRequest) (*librarypb.Book, error) {
	s, b, err := bookOf("name", request.GetName())
	if err != nil {
		return nil, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, book, err := l.find(s, b)
	return book, err
}

// List is a page of the books of a shelf.
func (l *Library) List(request *librarypb.ListBooksRequest) (*librarypb.ListBooksResponse, error) {
	s, err := shelfOf("parent", request.GetParent())
	if err != nil {
		return nil, err
	}
	size := int(request.GetPageSize())
	switch {
	case size < 0:
		return nil, status.Errorf(codes.InvalidArgument, "page_size: %d is below 0", size)
	case size == 0:
		size = pageDefault
	case size > pageMost:
		size = pageMost
	}
	after, err := afterToken(request.GetPageToken(), s)
	if err != nil {
		return nil, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	shelf, err := l.shelf(s)
	if err != nil {
		return nil, err
	}
	begin, _ := slices.BinarySearch(shelf.order, after+1)
	page := &librarypb.ListBooksResponse{}
	last := 0
	for _, b := range shelf.order[begin:] {
		book := shelf.books[b]
		if !fits(book, request.GetFilter()) {
			continue
		}
		if len(page.Books) == size {
			page.NextPageToken = token(s, last)
			break
		}
		page.Books, last = append(page.Books, book), b
	}
	return page, nil
}

// Create puts a book on a shelf, under the next number.
func (l *Library) Create(request *librarypb.CreateBookRequest) (*librarypb.Book, error) {
	s, err := shelfOf("parent", request.GetParent())
	if err != nil {
		return nil, err
	}
	if request.GetBook() == nil {
		return nil, status.Error(codes.InvalidArgument, "book is missing")
	}
	if err := check(request.GetBook()); err != nil {
		return nil, err
	}
	book := proto.CloneOf(request.GetBook())
	l.mu.Lock()
	defer l.mu.Unlock()
	shelf, err := l.shelf(s)
	if err != nil {
		return nil, err
	}
	if l.created >= maxCreated {
		return nil, status.Errorf(codes.ResourceExhausted,
			"%d books have been created already; delete some first", maxCreated)
	}
	b := shelf.last + 1
	book.Name = name(s, b)
	if err := l.store(0, book); err != nil {
		return nil, err
	}
	l.created++
	shelf.put(b, book)
	shelf.tell(librarypb.WatchBooksResponse_CREATED, book)
	return book, nil
}

// Update changes the fields of the mask, or all.
func (l *Library) Update(request *librarypb.UpdateBookRequest) (*librarypb.Book, error) {
	if request.GetBook() == nil {
		return nil, status.Error(codes.InvalidArgument, "book is missing")
	}
	s, b, err := bookOf("book.name", request.GetBook().GetName())
	if err != nil {
		return nil, err
	}
	if err := check(request.GetBook()); err != nil {
		return nil, err
	}
	paths, err := pathsOf(request.GetUpdateMask())
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	shelf, old, err := l.find(s, b)
	if err != nil {
		return nil, err
	}
	book := proto.CloneOf(request.GetBook())
	if len(paths) != 0 {
		book = proto.CloneOf(old)
		for _, path := range paths {
			assign(book.ProtoReflect(), request.GetBook().ProtoReflect(), path)
		}
	}
	if err := l.store(proto.Size(old), book); err != nil {
		return nil, err
	}
	shelf.books[b] = book
	shelf.tell(librarypb.WatchBooksResponse_UPDATED, book)
	return book, nil
}

// Delete removes a book.
func (l *Library) Delete(request *librarypb.DeleteBookRequest) error {
	s, b, err := bookOf("name", request.GetName())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	shelf, book, err := l.find(s, b)
	if err != nil {
		return err
	}
	if b > booksAtStart {
		l.created--
	}
	l.stored = max(0, l.stored-proto.Size(book))
	delete(shelf.books, b)
	if at, found := slices.BinarySearch(shelf.order, b); found {
		shelf.order = slices.Delete(shelf.order, at, at+1)
	}
	shelf.tell(librarypb.WatchBooksResponse_DELETED, book)
	return nil
}

// With the lock.
func (l *Library) shelf(s int) (*shelf, error) {
	if s < 1 || s > len(l.shelves) {
		return nil, missing(fmt.Sprintf("shelf shelves/%d", s))
	}
	return l.shelves[s-1], nil
}

// With the lock.
func (l *Library) find(s, b int) (*shelf, *librarypb.Book, error) {
	if shelf, err := l.shelf(s); err == nil && shelf.books[b] != nil {
		return shelf, shelf.books[b], nil
	}
	return nil, nil, missing("book " + name(s, b))
}

// Accounts for a book in place of what had so many bytes. With the lock. The books at the start are
// not accounted for, so there may be less than their replacement gives back.
func (l *Library) store(old int, book *librarypb.Book) error {
	size := proto.Size(book)
	stored := max(0, l.stored+size-old)
	if size > old && stored > maxStored {
		return status.Errorf(codes.ResourceExhausted,
			"the books that callers wrote fill %d bytes; delete some", maxStored)
	}
	l.stored = stored
	return nil
}

func (s *shelf) put(b int, book *librarypb.Book) {
	s.books[b] = book
	s.order = append(s.order, b)
	s.last = b
}

func fits(book *librarypb.Book, filter *librarypb.ListBooksRequest_Filter) bool {
	return filter == nil || (filter.Read == nil || filter.GetRead() == book.GetRead()) &&
		book.GetPages() >= filter.GetMinPages() &&
		(len(filter.GetAuthors()) == 0 || slices.Contains(filter.GetAuthors(), book.GetAuthor()))
}

// What a caller may store has an end.
func check(book *librarypb.Book) error {
	if len(book.GetLabels()) > maxLabels {
		return status.Errorf(codes.ResourceExhausted,
			"book.labels: %d are more than %d", len(book.GetLabels()), maxLabels)
	}
	texts := map[string][]string{
		"book.author":            {book.GetAuthor()},
		"book.title":             {book.GetTitle()},
		"book.labels":            book.GetLabels(),
		"book.edition.publisher": {book.GetEdition().GetPublisher()},
	}
	for field, values := range texts {
		for _, text := range values {
			if utf8.RuneCountInString(text) > maxCharacters {
				return status.Errorf(codes.ResourceExhausted,
					"%s: a text of more than %d characters", field, maxCharacters)
			}
		}
	}
	return nil
}
