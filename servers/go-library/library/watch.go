package library

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"trilane.test/servers/go-library/librarypb"
)

const (
	// Changes that wait for a caller who reads slowly; with one more its call ends.
	maxBehind    = 256
	maxFollowers = 1_000
	maxPause     = time.Hour
	// A follower of a shelf where nothing happens is sent away after this long, lest those that left
	// without a word stay for ever.
	silence = 10 * time.Minute
)

type watcher struct {
	changes chan *librarypb.WatchBooksResponse
	// Closed when a change did not fit any more.
	lost chan struct{}
}

// With the lock.
func (s *shelf) tell(change librarypb.WatchBooksResponse_Change, book *librarypb.Book) {
	for watcher := range s.watchers {
		select {
		case watcher.changes <- &librarypb.WatchBooksResponse{Book: book, Change: change}:
		default:
			close(watcher.lost)
			delete(s.watchers, watcher)
		}
	}
}

// Watch sends the books of a shelf, each once, or again and again where more are asked for, or
// followed by what changes.
func (l *Library) Watch(
	ctx context.Context,
	request *librarypb.WatchBooksRequest,
	send func(*librarypb.WatchBooksResponse) error,
) error {
	s, err := shelfOf("parent", request.GetParent())
	if err != nil {
		return err
	}
	pause, err := pauseOf(request)
	if err != nil {
		return err
	}
	stream := &sending{ctx: ctx, send: send, pause: pause, count: int(request.GetCount())}
	books, watcher, err := l.present(s, request.GetFollow())
	if err != nil {
		return err
	}
	if watcher != nil {
		defer l.leave(s, watcher)
	}
	for {
		for _, book := range books {
			present := librarypb.WatchBooksResponse_PRESENT
			more, err := stream.next(&librarypb.WatchBooksResponse{Book: book, Change: present})
			if err != nil || !more {
				return err
			}
		}
		if watcher != nil {
			return stream.follow(watcher)
		}
		if stream.count == 0 {
			return nil
		}
		if books, _, err = l.present(s, false); err != nil || len(books) == 0 {
			return err
		}
	}
}

func pauseOf(request *librarypb.WatchBooksRequest) (time.Duration, error) {
	if request.GetCount() < 0 {
		return 0, status.Errorf(codes.InvalidArgument, "count: %d is below 0", request.GetCount())
	}
	interval := request.GetInterval()
	if interval == nil {
		return 0, nil
	}
	if err := interval.CheckValid(); err != nil || interval.AsDuration() < 0 ||
		interval.AsDuration() > maxPause {
		return 0, status.Errorf(codes.InvalidArgument, "interval: is not within 0 and %v", maxPause)
	}
	return interval.AsDuration(), nil
}

// The books of a shelf as they are now, and, where asked, what will tell of each change since.
func (l *Library) present(s int, follow bool) ([]*librarypb.Book, *watcher, error) {
	if follow {
		l.mu.Lock()
		defer l.mu.Unlock()
	} else {
		l.mu.RLock()
		defer l.mu.RUnlock()
	}
	shelf, err := l.shelf(s)
	if err != nil {
		return nil, nil, err
	}
	books := make([]*librarypb.Book, len(shelf.order))
	for i, b := range shelf.order {
		books[i] = shelf.books[b]
	}
	if !follow {
		return books, nil, nil
	}
	if len(shelf.watchers) >= maxFollowers {
		return nil, nil, status.Errorf(codes.ResourceExhausted,
			"shelves/%d has %d followers already", s, maxFollowers)
	}
	watcher := &watcher{
		changes: make(chan *librarypb.WatchBooksResponse, maxBehind),
		lost:    make(chan struct{}),
	}
	shelf.watchers[watcher] = struct{}{}
	return books, watcher, nil
}

func (l *Library) leave(s int, watcher *watcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if shelf, err := l.shelf(s); err == nil {
		delete(shelf.watchers, watcher)
	}
}

// A stream of answers with pauses between them, and an end.
type sending struct {
	ctx   context.Context
	send  func(*librarypb.WatchBooksResponse) error
	pause time.Duration
	count int
	sent  int
}

// Sends one message; false where it was the last.
func (s *sending) next(message *librarypb.WatchBooksResponse) (bool, error) {
	if s.sent != 0 && s.pause != 0 {
		timer := time.NewTimer(s.pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			return false, status.FromContextError(s.ctx.Err()).Err()
		}
	}
	if err := s.send(message); err != nil {
		return false, err
	}
	s.sent++
	return s.sent != s.count, nil
}

func (s *sending) follow(watcher *watcher) error {
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		select {
		case <-quiet.C:
			return status.Errorf(codes.Unavailable, "nothing changed for %v; watch again", silence)
		case change := <-watcher.changes:
			if more, err := s.next(change); err != nil || !more {
				return err
			}
			quiet.Reset(silence)
		case <-watcher.lost:
			return status.Errorf(codes.ResourceExhausted,
				"more than %d changes were not read in time", maxBehind)
		case <-s.ctx.Done():
			return status.FromContextError(s.ctx.Err()).Err()
		}
	}
}
