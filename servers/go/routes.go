package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

const (
	largest = 64 << 20
	longest = 10 * time.Minute
	text    = "text/plain;charset=utf-8"
	octets  = "application/octet-stream"
	page    = "text/html; charset=utf-8"
)

var size = regexp.MustCompile(`^(\d{1,9})([km]?)$`)

// content is what the embedded server serves, byte for byte.
type content struct {
	index, pattern []byte
	books          map[string]json.RawMessage
	pages          map[string][]byte
}

func load(books, www string) (*content, error) {
	c := &content{pages: map[string][]byte{}}
	stock, err := os.ReadFile(books)
	if err != nil {
		return nil, err
	}
	// Raw: decoding and encoding again could write other bytes.
	if err := json.Unmarshal(stock, &c.books); err != nil {
		return nil, err
	}
	if c.index, err = os.ReadFile(filepath.Join(www, "books")); err != nil {
		return nil, err
	}
	if c.pattern, err = os.ReadFile(filepath.Join(www, "bytes", strconv.Itoa(1<<20))); err != nil {
		return nil, err
	}
	site, err := os.ReadDir(filepath.Join(www, "site"))
	if err != nil {
		return nil, err
	}
	for _, entry := range site {
		body, err := os.ReadFile(filepath.Join(www, "site", entry.Name()))
		if err != nil {
			return nil, err
		}
		c.pages[entry.Name()] = body
	}
	return c, nil
}

func routes(c *content) http.Handler {
	mux := http.NewServeMux()
	hello := func(w http.ResponseWriter, r *http.Request) { answer(w, text, []byte("hello world")) }
	mux.HandleFunc("/{$}", hello)
	mux.HandleFunc("/hello", hello)
	mux.HandleFunc("/bytes/{n}", c.bytesOf)
	mux.HandleFunc("/delay/{time}", delay)
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/headers", headers)
	mux.HandleFunc("/books", func(w http.ResponseWriter, r *http.Request) {
		answer(w, "application/json", c.index)
	})
	mux.HandleFunc("/book", func(w http.ResponseWriter, r *http.Request) {
		found(w, "application/json", c.books[r.URL.Query().Get("id")])
	})
	first := func(w http.ResponseWriter, r *http.Request) { found(w, page, c.pages["index.html"]) }
	mux.HandleFunc("/site", first)
	mux.HandleFunc("/site/{$}", first)
	mux.HandleFunc("/site/{page}", func(w http.ResponseWriter, r *http.Request) {
		found(w, page, c.pages[r.PathValue("page")])
	})
	return drained(mux)
}

// drained reads the request's body to its end before the answer, as the embedded server does.
func drained(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && r.URL.Path != "/echo" {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

func found(w http.ResponseWriter, kind string, body []byte) {
	if body == nil {
		http.Error(w, `{"error":"not found"}`, http.StatusNotFound)
		return
	}
	answer(w, kind, body)
}

// bytesOf answers with the first n bytes of a pattern that repeats after 1 MiB.
func (c *content) bytesOf(w http.ResponseWriter, r *http.Request) {
	parts := size.FindStringSubmatch(r.PathValue("n"))
	n := largest + 1
	if parts != nil {
		n, _ = strconv.Atoi(parts[1])
		n *= map[string]int{"": 1, "k": 1 << 10, "m": 1 << 20}[parts[2]]
	}
	if n > largest {
		http.Error(w, "a number of bytes up to 64m, such as 16k", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", octets)
	w.Header().Set("Content-Length", strconv.Itoa(n))
	for ; n > 0; n -= min(n, len(c.pattern)) {
		if _, err := w.Write(c.pattern[:min(n, len(c.pattern))]); err != nil {
			return
		}
	}
}

func delay(w http.ResponseWriter, r *http.Request) {
	asked := r.PathValue("time")
	pause, err := time.ParseDuration(asked)
	if err != nil || pause < 0 || pause > longest {
		http.Error(w, "a time up to 10m, such as 50ms", http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(pause):
		answer(w, text, []byte("waited "+asked+"\n"))
	case <-r.Context().Done():
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if _, err := io.Copy(&body, r.Body); err != nil {
		return
	}
	kind := r.Header.Get("Content-Type")
	if kind == "" {
		kind = octets
	}
	answer(w, kind, body.Bytes())
}

func headers(w http.ResponseWriter, r *http.Request) {
	version := map[int]string{1: "h1", 2: "h2", 3: "h3"}[r.ProtoMajor]
	if version == "h2" && r.TLS == nil {
		version = "h2c"
	}
	fields := [][2]string{}
	for name, values := range r.Header {
		for _, value := range values {
			fields = append(fields, [2]string{name, value})
		}
	}
	body, err := json.Marshal(map[string]any{
		"method": r.Method, "path": r.URL.RequestURI(), "authority": r.Host, "version": version,
		"fields": fields,
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, "application/json", body)
}
