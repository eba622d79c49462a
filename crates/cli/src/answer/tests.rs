use serde_json::json;
use trilane_engine::{Code, EventsOut, ScenarioOut, Verdict, WebSocketOut};

use super::*;
use crate::report::sample::{doubted, failed, outcome};

fn answer(outcome: &Outcome, gates: &[&str]) -> Answer {
    let gates: Vec<_> = gates
        .iter()
        .map(|gate| Gate::parse(gate).unwrap())
        .collect();
    Answer::of_run(outcome, &gates)
}

/// The headline of a run, which is short, whatever the run was.
fn headline(outcome: &Outcome, gates: &[&str]) -> String {
    let headline = answer(outcome, gates).headline;
    let words = headline.split_whitespace().count();
    assert!(words <= MOST_WORDS, "{words} words: {headline}");
    headline
}

fn bound(end: &'static str) -> Outcome {
    let mut run = outcome();
    run.validity.bound = end;
    run
}

fn open(asked: f64) -> Outcome {
    let mut run = outcome();
    run.plan.rate_per_s = Some(asked);
    run
}

const LATENCY: &str = "p50 0.88 ms, p99 7.0 ms, 0 failed";

#[test]
fn a_headline_is_the_result_and_which_end_was_the_limit() {
    let plain = format!("54,360 requests/s, {LATENCY}");
    assert_eq!(headline(&outcome(), &[]), plain);
    let server = bound("server");
    assert_eq!(
        headline(&server, &[]),
        format!("{plain}; the server was the limit")
    );
    assert_eq!(
        answer(&server, &[]).line,
        format!("{plain}; server-bound; valid")
    );
    let client = bound("client");
    let client = doubted(
        client,
        Verdict::Suspect,
        Code::WorkerBusy,
        "a worker was 97 % busy",
    );
    assert_eq!(
        headline(&client, &[]),
        format!("{plain}; this client was the limit")
    );
    assert_eq!(
        answer(&client, &[]).line,
        format!("{plain}; client-bound; suspect")
    );
    // Of a rate that was asked for no end is the limit.
    let mut held = open(54_400.0);
    held.validity.bound = "client";
    let of_asked = format!("54,360 of 54,400 requests/s, {LATENCY}");
    assert_eq!(headline(&held, &[]), of_asked);
    held.interrupted = true;
    held.requests.shed = 11_996;
    assert_eq!(
        headline(&held, &[]),
        format!("Interrupted: {of_asked}, 11,996 shed")
    );
    let mut few = outcome();
    few.latency.service.summary.p99 = None;
    assert_eq!(
        headline(&few, &[]),
        "54,360 requests/s, p50 0.88 ms, max 19.6 ms, 0 failed"
    );
}

#[test]
fn a_headline_has_the_words_of_what_was_requested() {
    let times = outcome().latency.service;
    let mut events = open(60_000.0);
    events.interrupted = true;
    events.requests.shed = 11_996;
    events.events = Some(EventsOut {
        format: "sse",
        first_event: None,
        received: 4480,
        events_per_s: 448.0,
        first: times.clone(),
        without_first: 0,
        gap: times.clone(),
        stall_s: 1.0,
        stalls: 0,
        stalled_s: 0.0,
    });
    // No headline is longer than this one.
    assert_eq!(
        headline(&events, &[]),
        format!(
            "Interrupted: 54,360 of 60,000 requests/s, 448 events/s, first event {LATENCY}, 11,996 shed"
        )
    );
    let mut sessions = outcome();
    sessions.websocket = Some(WebSocketOut {
        mode: "echo",
        kind: "text",
        message_bytes: 4,
        messages_per_session: Some(10),
        window: 1,
        messages: json!({"sent": 10, "received": 10}),
        received_per_s: 12.34,
        round_trip: Some(times.clone()),
    });
    assert_eq!(
        headline(&sessions, &[]),
        format!("54,360 sessions/s, 12.3 messages/s, message {LATENCY}")
    );
    let mut users = open(50.0);
    users.scenario = Some(ScenarioOut {
        name: "visit".into(),
        users: 8,
        started: 94,
        ok: 86,
        failed: 0,
        abandoned: 8,
        iterations_per_s: 43.09,
        duration: times,
        steps: Vec::new(),
    });
    assert_eq!(
        headline(&users, &[]),
        format!("43.1 of 50 iterations/s, 54,360 requests/s, {LATENCY}")
    );
}

#[test]
fn a_breached_threshold_comes_first() {
    let run = outcome();
    assert_eq!(
        headline(&run, &["failed>0", "p99>5ms"]),
        "Threshold breached: p99 7 ms, allowed ≤ 5 ms"
    );
    let both = answer(&run, &["failed>0", "p99>=7ms", "rate<100k"]);
    assert_eq!(
        both.headline,
        "Threshold breached: p99 7 ms, allowed < 7 ms; 1 more"
    );
    let details = [
        "p99 7 ms, allowed < 7 ms: breached",
        "rate 54359.7 requests/s, allowed ≥ 100000 requests/s: breached",
        "failed 0 requests, allowed ≤ 0 requests: passed",
    ];
    assert_eq!(both.details, details);
    // Beside it the run still has its line.
    assert_eq!(both.line, format!("54,360 requests/s, {LATENCY}; valid"));
    assert_eq!(
        headline(&run, &["p99>10ms"]),
        format!("54,360 requests/s, {LATENCY}")
    );
    let late = doubted(run, Verdict::Invalid, Code::Late, "requests left late");
    assert_eq!(
        headline(&late, &["p99>5ms"]),
        "Threshold breached: p99 7 ms, allowed ≤ 5 ms; the run is invalid"
    );
    let mut few = outcome();
    few.latency.service.summary.p99 = None;
    assert_eq!(
        headline(&few, &["p99>5ms"]),
        "Threshold breached: p99 not known, allowed ≤ 5 ms"
    );
}

#[test]
fn an_invalid_run_is_no_result() {
    let invalid = |code, text: &str| doubted(outcome(), Verdict::Invalid, code, text);
    let none = || invalid(Code::NothingOk, "no request was answered as expected");
    let refused = failed(
        none(),
        &[("refused", 9, "connection refused"), ("reset", 1, "RST")],
    );
    assert_eq!(
        headline(&refused, &[]),
        "No result: every request failed (connection refused)"
    );
    let long = "a b c d e f g h i j k l m n o p q r s t u v w x y z";
    let wordy = failed(none(), &[("body", 9, long)]);
    assert_eq!(
        headline(&wordy, &[]),
        "No result: every request failed (body)"
    );
    assert_eq!(
        headline(
            &invalid(Code::NothingOk, "no response ended within 2 s"),
            &[]
        ),
        "No result: no response ended within 2 s"
    );
    let share = invalid(
        Code::Failed,
        "3.12 % of the requests failed (more than 0.1 %)",
    );
    assert_eq!(
        headline(&share, &[]),
        "No result: 3.12 % of the requests failed"
    );
    assert!(headline(&invalid(Code::GivenUp, long), &[]).ends_with(" r…"));
    // Nothing that it measured is said to be why.
    assert_eq!(answer(&share, &[]).because, [""; 0]);
    assert_eq!(answer(&share, &[]).sign, '✗');
}

#[test]
fn because_is_what_was_measured_of_both_ends() {
    let because = |run: &Outcome| answer(run, &[]).because.join(" ");
    let mut server = bound("server");
    server.cost.server_cpu_us_per_request = Some(8.07);
    assert_eq!(
        because(&server),
        "The server's CPU was the limit: it left no processor of this machine idle, and this client was 48 % \
         busy. A request cost the server 8.07 µs of CPU, and this client 8.28 µs."
    );
    assert_eq!(
        because(&bound("client")),
        "This client was the limit: a worker was 48 % busy. A request cost it 8.28 µs of CPU."
    );
    // What others did to the machine may be why.
    for code in [
        Code::OthersBusy,
        Code::Steal,
        Code::StoodStill,
        Code::WorkerBusy,
    ] {
        let run = doubted(outcome(), Verdict::Suspect, code, "someone was busy");
        assert_eq!(because(&run), "", "{code:?}");
    }
    let mut queued = open(60_000.0);
    assert_eq!(because(&queued), "");
    queued.latency.queued = Some(queued.latency.service.clone());
    assert_eq!(because(&queued), "", "as long as the service itself");
    queued.latency.queued.as_mut().unwrap().summary.p99 = Some(2.0);
    assert_eq!(
        because(&queued),
        "Requests waited up to 2.0 s (p99) for a free connection or stream; the server then answered within \
         7.0 ms."
    );
}

#[test]
fn equal_doubts_are_told_once_with_what_to_do() {
    let doubt = |run| {
        doubted(
            run,
            Verdict::Suspect,
            Code::WorkerBusy,
            "a worker was 97 % busy",
        )
    };
    let confidence = answer(&doubt(doubt(outcome())), &[]).confidence;
    assert_eq!(confidence.verdict, Verdict::Suspect);
    let [only] = confidence.doubts.as_slice() else {
        panic!("{confidence:?}");
    };
    assert_eq!(only.advice, "use more threads with -t");
}

#[test]
fn three_to_five_numbers_matter() {
    let told = |run: &Outcome| {
        let figures = answer(run, &[]).figures;
        assert!((3..=5).contains(&figures.len()), "{figures:?}");
        figures
            .iter()
            .map(|figure| figure.measure)
            .collect::<Vec<_>>()
    };
    let usual = [
        "requests_per_s",
        "p50",
        "p99",
        "failed",
        "client_cpu_us_per_request",
    ];
    assert_eq!(told(&outcome()), usual);
    let mut nothing = outcome();
    nothing.latency.service.summary = trilane_engine::Summary {
        p50: None,
        p99: None,
        max: None,
        ..crate::report::sample::summary()
    };
    nothing.cost.cpu_us_per_request = None;
    assert_eq!(told(&nothing), ["requests_per_s", "failed", "started"]);
}
