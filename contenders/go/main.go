// A contender of the lab: Go's net/http for HTTP/1.1 and HTTP/2, quic-go for HTTP/3.
//
// It speaks trilane.contender/1 (docs/contenders.md): a plan as one line of JSON on standard
// input, "ready", the line "start", "done" when the last response is read, then the result.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

const schema = "trilane.contender/1"

type workload struct {
	Kind      string   `json:"kind"`
	Paths     []string `json:"paths"`
	Index     string   `json:"index"`
	Item      string   `json:"item"`
	Start     string   `json:"start"`
	Count     *int     `json:"count"`
	DurationS *float64 `json:"duration_s"`
}

type plan struct {
	Schema          string      `json:"schema"`
	Origin          string      `json:"origin"`
	Version         string      `json:"version"`
	Strategy        string      `json:"strategy"`
	Session         bool        `json:"session"`
	InFlight        int         `json:"in_flight"`
	Connections     *int        `json:"connections"`
	Chunk           *int        `json:"chunk"`
	TimeoutS        float64     `json:"timeout_s"`
	CACert          *string     `json:"cacert"`
	Workload        workload    `json:"workload"`
	Method          string      `json:"method"`
	Headers         [][2]string `json:"headers"`
	Body            []byte      `json:"body"`
	BodyFile        *string     `json:"body_file"`
	Discard         bool        `json:"discard"`
	Gzip            bool        `json:"gzip"`
	Warmup          int         `json:"warmup"`
	WarmupS         float64     `json:"warmup_s"`
	Repeat          int         `json:"repeat"`
	RepeatProcesses int         `json:"repeat_processes"`
}

func (p *plan) timeout() time.Duration {
	return time.Duration(p.TimeoutS * float64(time.Second))
}

func (p *plan) chunk() int {
	if p.Chunk != nil && *p.Chunk > 0 {
		return *p.Chunk
	}
	return p.inFlight()
}

func (p *plan) inFlight() int {
	return max(p.InFlight, 1)
}

// pool is how many connections may be open at once.
func (p *plan) pool() int {
	switch {
	case p.Connections != nil:
		return *p.Connections
	case p.Strategy == "serial":
		return 1
	}
	return p.inFlight()
}

// onOneConnection tells whether the strategy promises that all requests share a connection.
func (p *plan) onOneConnection() bool {
	return p.Strategy == "chunks" || p.Strategy == "multiplexed"
}

// dress gives a request the plan's headers and takes away those that Go adds by itself.
func (p *plan) dress(request *http.Request) {
	request.Header.Set("User-Agent", "")
	if !p.Gzip {
		request.Header.Set("Accept-Encoding", "identity")
	}
	for _, header := range p.Headers {
		if strings.EqualFold(header[0], "host") {
			request.Host = header[1]
			continue
		}
		if strings.EqualFold(header[0], "accept-encoding") || strings.EqualFold(header[0], "user-agent") {
			request.Header.Del(header[0])
		}
		request.Header.Add(header[0], header[1])
	}
}

// refusal says why the plan cannot be carried out, or nothing.
func (p *plan) refusal() string {
	switch {
	case p.Schema != schema:
		return fmt.Sprintf("the plan's schema is %q, this program speaks %s", p.Schema, schema)
	case p.Discard && p.Workload.Kind != "urls":
		return "what follows is read from the bodies, so they cannot be discarded"
	case p.RepeatProcesses > 0:
		return "this program repeats a workload in one process only: set repeat_processes to 0"
	case p.Version == "h1" && p.onOneConnection():
		return fmt.Sprintf("net/http does not send two HTTP/1.1 requests at once on one connection (strategy %s)",
			p.Strategy)
	case p.Repeat > 1 && (p.Warmup > 0 || p.WarmupS > 0):
		return "repetitions are not warmed up: set warmup to 0"
	case !p.Session && p.onOneConnection():
		return fmt.Sprintf("strategy %s shares one connection, so it needs a session", p.Strategy)
	}
	return ""
}

func emit(event any) {
	line, err := json.Marshal(event)
	if err != nil {
		fail(fmt.Errorf("cannot write an event: %w", err))
	}
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		fail(fmt.Errorf("cannot write to standard output: %w", err))
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "go contender: %v\n", err)
	os.Exit(1)
}

// library names what does the work for a version, and which release of it.
func library(version string) (name, release string) {
	if version != "h3" {
		return "net/http", strings.TrimPrefix(runtime.Version(), "go")
	}
	const module = "github.com/quic-go/quic-go"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return "quic-go", strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	return "quic-go", "unknown"
}

type cannot struct {
	Event  string `json:"event"`
	Reason string `json:"reason"`
}

type ready struct {
	Event          string `json:"event"`
	Library        string `json:"library"`
	LibraryVersion string `json:"library_version"`
	Runtime        string `json:"runtime"`
	Sessions       string `json:"sessions"`
}

func main() {
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	if err != nil {
		fail(fmt.Errorf("no plan on standard input: %w", err))
	}
	var p plan
	if err := json.Unmarshal(line, &p); err != nil {
		fail(fmt.Errorf("the plan is not what %s describes: %w", schema, err))
	}
	if reason := p.refusal(); reason != "" {
		emit(cannot{"cannot", reason})
		return
	}
	r, err := newRunner(&p)
	if err != nil {
		emit(cannot{"cannot", err.Error()})
		return
	}
	r.warmUp()

	name, release := library(p.Version)
	sessions := "one"
	if !p.Session {
		sessions = "a new one for each request"
	}
	emit(ready{"ready", name, release, "Go " + strings.TrimPrefix(runtime.Version(), "go"), sessions})
	if word, err := input.ReadString('\n'); err != nil || strings.TrimSpace(word) != "start" {
		fail(fmt.Errorf("expected start, got %q (%w)", word, err))
	}
	r.run()
	emit(map[string]string{"event": "done"})
	result, err := r.result()
	if err != nil {
		fail(err)
	}
	emit(result)
}
