package main

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
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
	a, err := r.request(path)
	took := time.Since(start)
	if unusable := s.finish(path, a.body, err == nil); unusable != nil {
		err = &failure{"body", unusable.Error()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account(a, took, err)
}

func (r *runner) account(a answer, took time.Duration, err error) {
	r.started++
	if a.response != nil {
		r.status[fmt.Sprint(a.response.StatusCode)]++
		r.versions[obtained(a.response)]++
		r.bytes += a.size
	}
	// A failure took its time, too: it stays in the distribution.
	_ = r.latency.RecordValue(min(max(took.Nanoseconds(), lowest), highest))
	if err != nil {
		r.fail(kind(err), err.Error())
		return
	}
	r.ok++
	r.digest += uint64(crc32.ChecksumIEEE(a.body))
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

// answer is what came back: nothing of a body that the plan discards but its size in bytes.
type answer struct {
	response *http.Response
	body     []byte
	size     int64
}

// content is what the plan sends: a file in pieces, bytes or nothing (nil), and its length in bytes.
func (r *runner) content() (io.Reader, int64, error) {
	switch {
	case r.plan.BodyFile != nil:
		file, err := os.Open(*r.plan.BodyFile)
		if err != nil {
			return nil, 0, err
		}
		about, err := file.Stat()
		if err != nil {
			return nil, 0, errors.Join(err, file.Close())
		}
		return file, about.Size(), nil
	case r.plan.Body != nil:
		return bytes.NewReader(r.plan.Body), int64(len(r.plan.Body)), nil
	}
	return nil, 0, nil
}

// read takes the body to its end, and holds it unless the plan discards it.
func (r *runner) read(response *http.Response) (answer, error) {
	a := answer{response: response}
	var err error
	if r.plan.Discard {
		a.size, err = io.Copy(io.Discard, response.Body)
	} else {
		a.body, err = io.ReadAll(response.Body)
		a.size = int64(len(a.body))
	}
	return a, err
}

// request sends one request and reads the whole answer.
func (r *runner) request(path string) (answer, error) {
	s := r.shared
	if s == nil {
		own := r.factory.session()
		defer own.close()
		s = &own
	}
	content, length, err := r.content()
	if err != nil {
		return answer{}, err
	}
	request, err := http.NewRequest(r.plan.Method, r.plan.Origin+path, content)
	if err != nil {
		return answer{}, err
	}
	request.ContentLength = length
	r.plan.dress(request)
	response, err := s.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	a, err := r.read(response)
	switch version := obtained(response); {
	case err != nil:
		if kind(err) == "closed" {
			err = &failure{"body", fmt.Sprintf("%s: the body ended early: %v", path, err)}
		}
		return a, err
	case version != r.plan.Version:
		return a, &failure{"protocol", fmt.Sprintf("asked for %s, got %s", r.plan.Version, version)}
	case response.StatusCode > 399:
		return a, &failure{"status", fmt.Sprintf("%s answered %s", path, response.Status)}
	}
	return a, nil
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
	BodyDigest  *uint64           `json:"body_digest"`
	ElapsedS    float64           `json:"elapsed_s"`
	Repetitions []float64         `json:"repetitions_s"`
	Latency     *latency          `json:"latency"`
}

func (r *runner) result() (*result, error) {
	encoded, err := r.latency.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, errors.Join(errors.New("cannot encode the histogram"), err)
	}
	digest := &r.digest
	if r.plan.Discard {
		digest = nil
	}
	return &result{
		Event: "result", Started: r.started, OK: r.ok, Failed: r.failed, Examples: r.examples,
		Status: r.status, Versions: r.versions, Connections: r.factory.connections.Load(),
		BodyBytes: r.bytes, BodyDigest: digest, ElapsedS: r.elapsed.Seconds(),
		Repetitions: r.repetitions, Latency: &latency{string(encoded)},
	}, nil
}
