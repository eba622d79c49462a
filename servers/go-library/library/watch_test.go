package library

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"trilane.test/servers/go-library/librarypb"
)

const patience = 30 * time.Second

func timed(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestAWatchBeginsAnew(t *testing.T) {
	var got []*librarypb.WatchBooksResponse
	request := &librarypb.WatchBooksRequest{
		Parent: "shelves/1", Count: 250, Interval: durationpb.New(time.Microsecond),
	}
	err := New().Watch(timed(t), request, func(message *librarypb.WatchBooksResponse) error {
		got = append(got, message)
		return nil
	})
	if err != nil || len(got) != 250 || got[249].Book.Name != "shelves/1/books/50" {
		t.Error(len(got), err)
	}
	if got[200].Change != librarypb.WatchBooksResponse_PRESENT {
		t.Error(got[200])
	}
}

func TestAWatchWithoutACountEndsWithTheLastBook(t *testing.T) {
	sent := 0
	err := New().Watch(timed(t), &librarypb.WatchBooksRequest{Parent: "shelves/1"},
		func(*librarypb.WatchBooksResponse) error {
			sent++
			return nil
		})
	if err != nil || sent != 100 {
		t.Error(sent, err)
	}
}

func TestFollowersAreBounded(t *testing.T) {
	library := New()
	for range maxFollowers {
		if _, _, err := library.present(1, true); err != nil {
			t.Fatal(err)
		}
	}
	request := &librarypb.WatchBooksRequest{Parent: "shelves/1", Follow: true}
	expect(t, library.Watch(timed(t), request, nil), codes.ResourceExhausted, "1000 followers")
}

func TestAWatchOfAnEmptyShelfEnds(t *testing.T) {
	library := New()
	sent := 0
	err := library.Watch(timed(t), &librarypb.WatchBooksRequest{Parent: "shelves/1", Count: 200},
		func(message *librarypb.WatchBooksResponse) error {
			sent++
			return library.Delete(&librarypb.DeleteBookRequest{Name: message.Book.Name})
		})
	if err != nil || sent != 100 {
		t.Error(sent, err)
	}
}

func TestAWatchThatFollowsTellsOfChanges(t *testing.T) {
	library := New()
	var got []*librarypb.WatchBooksResponse
	err := library.Watch(
		timed(t), &librarypb.WatchBooksRequest{Parent: "shelves/1", Count: 103, Follow: true},
		func(message *librarypb.WatchBooksResponse) error {
			if got = append(got, message); len(got) != 1 {
				return nil
			}
			// While it still tells what there is.
			parent := "shelves/1"
			created, err := library.Create(&librarypb.CreateBookRequest{
				Parent: parent, Book: &librarypb.Book{Title: "New"},
			})
			if err != nil {
				return err
			}
			if _, err := library.Update(&librarypb.UpdateBookRequest{Book: created}); err != nil {
				return err
			}
			return library.Delete(&librarypb.DeleteBookRequest{Name: created.Name})
		},
	)
	if err != nil || len(got) != 103 {
		t.Fatal(len(got), err)
	}
	for i, change := range []librarypb.WatchBooksResponse_Change{
		librarypb.WatchBooksResponse_CREATED,
		librarypb.WatchBooksResponse_UPDATED,
		librarypb.WatchBooksResponse_DELETED,
	} {
		if got[100+i].Change != change || got[100+i].Book.Title != "New" {
			t.Error(got[100+i])
		}
	}
	if len(library.shelves[0].watchers) != 0 {
		t.Error("the watcher is still there")
	}
}

func TestWhoReadsTooSlowlyIsTold(t *testing.T) {
	library := New()
	first := true
	err := library.Watch(
		timed(t), &librarypb.WatchBooksRequest{Parent: "shelves/1", Follow: true},
		func(*librarypb.WatchBooksResponse) error {
			if !first {
				return nil
			}
			first = false
			for range maxBehind + 1 {
				book := &librarypb.Book{Name: "shelves/1/books/1"}
				if _, err := library.Update(&librarypb.UpdateBookRequest{Book: book}); err != nil {
					return err
				}
			}
			return nil
		},
	)
	expect(t, err, codes.ResourceExhausted, "more than 256 changes")
}

func TestAWatchEndsWithItsCaller(t *testing.T) {
	for _, request := range []*librarypb.WatchBooksRequest{
		{Parent: "shelves/1", Interval: durationpb.New(time.Hour)},
		{Parent: "shelves/1", Follow: true},
	} {
		ctx, leave := context.WithCancel(timed(t))
		time.AfterFunc(20*time.Millisecond, leave)
		err := New().Watch(ctx, request, func(*librarypb.WatchBooksResponse) error { return nil })
		expect(t, err, codes.Canceled, "")
	}
	gone := errors.New("gone")
	request := &librarypb.WatchBooksRequest{Parent: "shelves/1"}
	err := New().Watch(timed(t), request, func(*librarypb.WatchBooksResponse) error { return gone })
	if !errors.Is(err, gone) {
		t.Error(err)
	}
}

func TestWatchesThatMakeNoSense(t *testing.T) {
	for words, request := range map[string]*librarypb.WatchBooksRequest{
		"count: -1 is below 0": {Parent: "shelves/1", Count: -1},
		"interval:":            {Parent: "shelves/1", Interval: durationpb.New(-1)},
		"interval: is not":     {Parent: "shelves/1", Interval: durationpb.New(2 * time.Hour)},
		"interval: is":         {Parent: "shelves/1", Interval: &durationpb.Duration{Nanos: 1e9}},
		"parent:":              {Parent: "shelf"},
	} {
		err := New().Watch(timed(t), request, nil)
		expect(t, err, codes.InvalidArgument, words)
	}
	err := New().Watch(timed(t), &librarypb.WatchBooksRequest{Parent: "shelves/99"}, nil)
	expect(t, err, codes.NotFound, "shelves/99")
}
