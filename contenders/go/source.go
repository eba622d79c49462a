package main

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The links that a crawl follows, as the Python contenders do: absolute ones of the origin first.
var relative = regexp.MustCompile(`<a href="(/[^/]\S+)"`)

func absolute(origin string) *regexp.Regexp {
	return regexp.MustCompile(`<a href="` + regexp.QuoteMeta(origin) + `(/\S+)"`)
}

// source hands out the paths of a workload. What an index or a page leads to is added when its
// body arrives, so a worker may have to wait for others before it gets the next path.
type source struct {
	mu       sync.Mutex
	changed  *sync.Cond
	work     *workload
	links    []*regexp.Regexp
	next     int       // urls: how many were handed out
	deadline time.Time // urls by duration
	queue    []string
	seen     map[string]bool
	limit    int // paths that may be queued altogether
	waiting  int // handed out, not yet finished
}

func newSource(w *workload, origin string) *source {
	s := &source{work: w, limit: math.MaxInt}
	s.changed = sync.NewCond(&s.mu)
	if w.Count != nil {
		s.limit = *w.Count
	}
	switch w.Kind {
	case "urls":
		if w.DurationS != nil {
			s.deadline = time.Now().Add(time.Duration(*w.DurationS * float64(time.Second)))
		}
	case "index":
		s.queue = []string{w.Index}
	case "crawl":
		s.links = []*regexp.Regexp{absolute(origin), relative}
		s.seen = map[string]bool{canonical(w.Start): true}
		s.queue = []string{w.Start}
	}
	return s
}

// take gives the next path. It waits while others may still find some, and says false at the end.
func (s *source) take() (string, bool) {
	paths := s.takeMany(1)
	if len(paths) == 0 {
		return "", false
	}
	return paths[0], true
}

// takeMany gives between 1 and n paths, as many as there are now; none at the end.
func (s *source) takeMany(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work.Kind == "urls" {
		return s.takeURLs(n)
	}
	for len(s.queue) == 0 && s.waiting > 0 {
		s.changed.Wait()
	}
	n = min(n, len(s.queue))
	paths := s.queue[:n:n]
	s.queue = s.queue[n:]
	s.waiting += n
	return paths
}

func (s *source) takeURLs(n int) []string {
	if !s.deadline.IsZero() && !time.Now().Before(s.deadline) {
		return nil
	}
	n = min(n, s.limit-s.next)
	paths := make([]string, 0, n)
	for range n {
		paths = append(paths, s.work.Paths[s.next%len(s.work.Paths)])
		s.next++
	}
	return paths
}

// finish adds what the body of a path leads to, if the response was good.
func (s *source) finish(path string, body []byte, good bool) error {
	if s.work.Kind == "urls" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Broadcast()
	s.waiting--
	if !good {
		return nil
	}
	if s.work.Kind == "crawl" {
		s.follow(body)
		return nil
	}
	if path != s.work.Index {
		return nil
	}
	return s.list(body)
}

func (s *source) list(body []byte) error {
	var ids []json.RawMessage
	if err := json.Unmarshal(body, &ids); err != nil {
		return fmt.Errorf("%s is not a JSON list: %w", s.work.Index, err)
	}
	for _, id := range ids[:min(len(ids), s.limit)] {
		text := string(id)
		if unquoted, err := strconv.Unquote(text); err == nil {
			text = unquoted
		}
		s.queue = append(s.queue, strings.ReplaceAll(s.work.Item, "{id}", text))
	}
	return nil
}

func (s *source) follow(body []byte) {
	for _, pattern := range s.links {
		for _, found := range pattern.FindAllSubmatch(body, -1) {
			path := canonical(string(found[1]))
			if !s.seen[path] && len(s.seen) < s.limit {
				s.seen[path] = true
				s.queue = append(s.queue, path)
			}
		}
	}
}

// canonical is the path by which a page is known: without a slash at the end.
func canonical(path string) string {
	return strings.TrimRight(path, "/")
}
