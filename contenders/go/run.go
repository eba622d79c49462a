package main

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of the histogram, in nanoseconds.
const (
	lowest  = int64(time.Microsecond)
	highest = int64(time.Hour)
)

// runner carries out a plan and keeps the account.
type runner struct {
	plan    *plan
	factory *factory
	shared  *session // nil without a session

	mu       sync.Mutex
	started  int64
	ok       int64
	failed   map[string]int64
	examples map[string]string
	status   map[string]int64
	versions map[string]int64
	bytes    int64
	digest   uint64
	latency  *hdrhistogram.Histogram

	elapsed     time.Duration
	repetitions []float64
}

func newRunner(p *plan) (*runner, error) {
	f, err := newFactory(p)
	if err != nil {
		return nil, err
	}
	r := &runner{plan: p, factory: f}
	r.forget()
	return r, nil
}

// forget drops what has been counted.
func (r *runner) forget() {
	r.started, r.ok, r.bytes, r.digest = 0, 0, 0, 0
	r.failed, r.examples = map[string]int64{}, map[string]string{}
	r.status, r.versions = map[string]int64{}, map[string]int64{}
	r.latency = hdrhistogram.New(lowest, highest, 3)
}

// warmUp opens the session and sends requests that are not counted.
func (r *runner) warmUp() {
	if r.plan.Warmup == 0 && r.plan.WarmupS == 0 {
		return
	}
	r.open()
	w := r.plan.Workload
	paths := w.Paths
	if w.Kind != "urls" {
		paths = []string{w.Index + w.Start}
	}
	if r.plan.WarmupS > 0 {
		r.perform(&workload{Kind: "urls", Paths: paths, DurationS: &r.plan.WarmupS})
	}
	if r.plan.Warmup > 0 {
		r.perform(&workload{Kind: "urls", Paths: paths, Count: &r.plan.Warmup})
	}
	r.forget()
}

// run sends the whole workload as often as the plan repeats it, each time in a session of its own.
func (r *runner) run() {
	begin := time.Now()
	for range max(r.plan.Repeat, 1) {
		start := time.Now()
		r.open()
		r.perform(&r.plan.Workload)
		r.close()
		r.repetitions = append(r.repetitions, time.Since(start).Seconds())
	}
	r.elapsed = time.Since(begin)
}

func (r *runner) open() {
	if r.plan.Session && r.shared == nil {
		s := r.factory.session()
		r.shared = &s
	}
}

func (r *runner) close() {
	if r.shared != nil {
		r.shared.close()
		r.shared = nil
	}
}

func (r *runner) perform(work *workload) {
	s := newSource(work, r.plan.Origin)
	if r.plan.Strategy == "chunks" {
		r.chunks(s)
		return
	}
	workers := r.plan.inFlight()
	if r.plan.Strategy == "serial" {
		workers = 1
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for path, ok := s.take(); ok; path, ok = s.take() {
				r.fetch(s, path)
			}
		})
	}
	group.Wait()
}

// chunks sends as many requests at once as the chunk holds, and the next when all are answered.
func (r *runner) chunks(s *source) {
	for {
		paths := s.takeMany(r.plan.chunk())
		if len(paths) == 0 {
			return
		}
		var group sync.WaitGroup
		for _, path := range paths {
			group.Go(func() { r.fetch(s, path) })
		}
		group.Wait()
	}
}

// failure is a response that does not count, with its kind.
type failure struct {
	kind    string
	message string
}

func (f *failure) Error() string { return f.message }

func (r *runner) fetch(s *source, path string) {
	start := time.Now()
	response, body, err := r.request(path)
	took := time.Since(start)
	if unusable := s.finish(path, body, err == nil); unusable != nil {
		err = &failure{"body", unusable.Error()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account(response, body, took, err)
}

func (r *runner) account(response *http.Response, body []byte, took time.Duration, err error) {
	r.started++
	if response != nil {
		r.status[fmt.Sprint(response.StatusCode)]++
		r.versions[obtained(response)]++
		r.bytes += int64(len(body))
	}
	// A failure took its time, too: it stays in the distribution.
	_ = r.latency.RecordValue(min(max(took.Nanoseconds(), lowest), highest))
	if err != nil {
		r.fail(kind(err), err.Error())
		return
	}
	r.ok++
	r.digest += uint64(crc32.ChecksumIEEE(body))
}

func (r *runner) fail(kind, message string) {
	r.failed[kind]++
	if _, known := r.examples[kind]; !known {
		r.examples[kind] = message
	}
}

// obtained names the version of a response as the lab does.
func obtained(response *http.Response) string {
	switch {
	case response.ProtoMajor == 2 && response.TLS == nil:
		return "h2c"
	case response.ProtoMajor == 1:
		return "h1"
	}
	return fmt.Sprintf("h%d", response.ProtoMajor)
}

// request sends one request and reads the whole answer.
func (r *runner) request(path string) (*http.Response, []byte, error) {
	s := r.shared
	if s == nil {
		own := r.factory.session()
		defer own.close()
		s = &own
	}
	var content io.Reader
	if r.plan.Body != nil {
		content = bytes.NewReader(r.plan.Body)
	}
	request, err := http.NewRequest(r.plan.Method, r.plan.Origin+path, content)
	if err != nil {
		return nil, nil, err
	}
	r.plan.dress(request)
	response, err := s.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch version := obtained(response); {
	case err != nil:
		if kind(err) == "closed" {
			err = &failure{"body", fmt.Sprintf("%s: the body ended early: %v", path, err)}
		}
		return response, body, err
	case version != r.plan.Version:
		return response, body, &failure{"protocol", fmt.Sprintf("asked for %s, got %s", r.plan.Version, version)}
	case response.StatusCode > 399:
		return response, body, &failure{"status", fmt.Sprintf("%s answered %s", path, response.Status)}
	}
	return response, body, nil
}

type latency struct {
	HDR string `json:"hdr"`
}

type result struct {
	Event       string            `json:"event"`
	Started     int64             `json:"started"`
	OK          int64             `json:"ok"`
	Failed      map[string]int64  `json:"failed"`
	Examples    map[string]string `json:"examples"`
	Abandoned   int64             `json:"abandoned"`
	Status      map[string]int64  `json:"status"`
	Versions    map[string]int64  `json:"versions"`
	Connections int64             `json:"connections"`
	BodyBytes   int64             `json:"body_bytes"`
	BodyDigest  uint64            `json:"body_digest"`
	ElapsedS    float64           `json:"elapsed_s"`
	Repetitions []float64         `json:"repetitions_s"`
	Latency     *latency          `json:"latency"`
}

func (r *runner) result() (*result, error) {
	encoded, err := r.latency.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, errors.Join(errors.New("cannot encode the histogram"), err)
	}
	return &result{
		Event: "result", Started: r.started, OK: r.ok, Failed: r.failed, Examples: r.examples,
		Status: r.status, Versions: r.versions, Connections: r.factory.connections.Load(),
		BodyBytes: r.bytes, BodyDigest: r.digest, ElapsedS: r.elapsed.Seconds(),
		Repetitions: r.repetitions, Latency: &latency{string(encoded)},
	}, nil
}
