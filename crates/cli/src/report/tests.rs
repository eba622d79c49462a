use trilane_engine::{BacklogOut, Code, Gate, OriginOut, Verdict};

use super::sample::{doubted, failed, outcome, summary};
use super::*;

const BRIEF: Layout = Layout {
    verbose: false,
    slowest: false,
    width: None,
};

fn shown(outcome: &Outcome, gates: &[&str], layout: Layout) -> String {
    let gates: Vec<_> = gates
        .iter()
        .map(|gate| Gate::parse(gate).unwrap())
        .collect();
    text(outcome, &Answer::of_run(outcome, &gates), layout)
}

#[test]
fn a_report_has_the_answer_first_and_what_people_need() {
    let expected = "\
✓ p99 7 ms, allowed ≤ 10 ms
✓ 54,360 requests/s, p50 0.88 ms, p99 7.0 ms, 0 failed; valid
  This client was not the limit (48 % busy): the server, the network or the 64 in flight were.

Target       http://127.0.0.1:8080/hello
Negotiated   h1, 127.0.0.1:8080, cubic, MTU 65535 bytes
Load         closed model, 64 in flight: 64 connections × 1 stream, 1 thread; 10 s after 1 s of warm-up

Requests/sec: 54359.70
  in 10.000 s: 543661 started = 543597 ok + 0 failed + 64 abandoned in flight at the end

Latency         service   first byte
  mean         1.170 ms     1.170 ms
  p50          880.0 µs     880.0 µs
  p90          2.000 ms     2.000 ms
  p99          7.000 ms     7.000 ms
  p99.9       11.000 ms    11.000 ms
  max         19.600 ms    19.600 ms

Status codes
  200     543597

Errors       none
Client cost  8.28 µs CPU per request (2.00 s user, 2.50 s system), busy 48 %, peak memory 18.00 MiB
Transfer/sec: 8.58 MiB
Validity     valid
More with -v: all percentiles, histogram, slowest requests, connections, phases, bytes
";
    assert_eq!(shown(&outcome(), &["p99>10ms"], BRIEF), expected);
}

/// A run of which every paragraph has something to say.
fn all_at_once() -> Outcome {
    let mut run = failed(
        outcome(),
        &[
            ("status", 700, "503"),
            ("timeout", 3, "30 s"),
            ("reset", 2, "RST"),
        ],
    );
    run.status.insert("503".into(), 700);
    run.status.insert("404".into(), 12);
    let requests = &mut run.requests;
    (requests.retried, requests.unsent, requests.shed) = (11, 12, 13);
    (requests.censored, requests.early_responses.count) = (3, 14);
    run.plan.rate_per_s = Some(60_000.0);
    run.rate.sent_per_s = Some(54_400.0);
    run.connections.established_measured = 5;
    run.connections.failed.insert("refused", 4);
    run.connections.lost.insert("reset", 2);
    run.connections.spent = 1;
    run.backlog = Some(BacklogOut {
        at_most: 99,
        at_most_s: Some(9.0),
        since_s: Some(1.0),
        at_end: 12,
    });
    run.cost.server_cpu_us_per_request = Some(8.07);
    run.latency.response = Some(run.latency.service.clone());
    run.latency.queued = Some(run.latency.service.clone());
    let origin = |origin: &str| OriginOut {
        origin: origin.into(),
        started: 1,
        ok: 1,
        failed: 0,
        abandoned: 0,
        connections: 1,
        connections_failed: 0,
        service: summary(),
    };
    run.origins = Some(vec![origin("http://a"), origin("http://b")]);
    let run = doubted(run, Verdict::Invalid, Code::Failed, "many requests failed");
    doubted(run, Verdict::Suspect, Code::Unsent, "requests were unsent")
}

/// What may never be hidden: failures, reasons, and where requests went.
const NEVER_HIDDEN: [&str; 17] = [
    "✗ p99 7 ms, allowed ≤ 5 ms",
    "many requests failed → use more threads",
    "requests were unsent → use more threads",
    "705 failed + 64 abandoned",
    "11 sent again",
    "12 more were due and found no free stream",
    "13 more could only have left",
    "14 responses came before",
    "due and not sent: at most 99",
    "54400.00 requests/s left of 60000",
    "3 timeouts are in it",
    "  503        700",
    "status                   700",
    "timeout                    3",
    "reset                      2",
    "failed: 4 refused",
    "lost: 2 reset",
];

#[test]
fn thirty_lines_are_enough_until_much_goes_wrong_which_is_never_hidden() {
    let all = all_at_once();
    let brief = shown(&all, &["p99>5ms"], BRIEF);
    for text in NEVER_HIDDEN {
        assert!(brief.contains(text), "{text}: {brief}");
    }
    // Each of the three kinds of failure, and each way that connections failed, has a line of its own.
    assert!(brief.lines().count() <= LINES + 7, "{brief}");
    let mut open = all;
    open.requests.failures.clear();
    open.connections.failed.clear();
    open.connections.lost.clear();
    for plain in [open, outcome()] {
        let brief = shown(&plain, &["p99>5ms"], BRIEF);
        assert!(brief.lines().count() <= LINES, "{brief}");
        assert!(brief.contains("\nMore with -v: "), "{brief}");
    }
}

#[test]
fn what_a_flag_asked_for_is_there() {
    let mut run = outcome();
    assert!(!shown(&run, &[], BRIEF).contains("\n\nPhases "));
    run.plan.asked.requests_per_connection = Some(1);
    let with_phases = shown(&run, &[], BRIEF);
    assert!(with_phases.contains("\nPhases "), "{with_phases}");
    assert!(with_phases.lines().count() <= LINES, "{with_phases}");
    let layout = Layout {
        slowest: true,
        ..BRIEF
    };
    assert!(shown(&run, &[], layout).contains("worker:connection:stream"));
}

#[test]
fn all_of_it_has_every_paragraph() {
    let layout = Layout {
        verbose: true,
        ..BRIEF
    };
    let whole = shown(&all_at_once(), &["p99>5ms"], layout);
    for text in NEVER_HIDDEN {
        assert!(whole.contains(text), "{text}: {whole}");
    }
    for text in [
        "  p99.99",
        "\n\nOrigins ",
        "\n\nPhases ",
        "\n\nConnections  64 of 64",
        "\n\nService time from",
        "\n\nSlowest ",
        "\n\nWire ",
        "\n\nValidity     INVALID\n  many requests failed\n",
    ] {
        assert!(whole.contains(text), "{text}: {whole}");
    }
    assert!(!whole.contains("More with -v"), "{whole}");
    // A law of the closed model, and not of the open one.
    let closed = shown(&outcome(), &[], layout);
    assert!(closed.contains("(Little's law)"), "{closed}");
    assert!(!whole.contains("(Little's law)"), "{whole}");
}

#[test]
fn a_narrow_terminal_has_lines_that_fit() {
    for width in [55, 40] {
        let layout = Layout {
            width: Some(width),
            ..BRIEF
        };
        let narrow = shown(&all_at_once(), &["p99>5ms"], layout);
        for line in narrow.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        // Columns that do not fit are left out, and no row is broken.
        let cells = "     880.0 µs".repeat((width - 10) / 13);
        assert!(
            narrow.contains(&format!("\n  p50     {cells}\n  p99 ")),
            "{narrow}"
        );
        for text in [
            "Requests/sec: 54359.70",
            "  503        700",
            "Validity     INVALID",
        ] {
            assert!(narrow.contains(text), "{text}: {narrow}");
        }
    }
}
