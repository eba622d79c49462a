//! Runs of one worker against scripted servers, in virtual time.

mod calls;
mod conformance;
mod early_data;
mod keepalive;
mod lapses;
mod origins;
mod pacing;
mod random;
mod replaced;
mod scenario;
mod sharing;
mod truth;
mod turns;
mod uploads;
mod websocket;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::assemble::Machine;
use crate::connections::ConnectionsOut;
use crate::events::{EventFormat, EventsAsked};
use crate::latency::Durations;
use crate::options::{Options, Version};
use crate::outcome::Outcome;
use crate::schedule::Unsent;
use crate::simulation::{Early, Ending, Latency, Seen, Serve, Simulation, Slow, Story};
use crate::validity::nothing_ok::{advice, hint};

fn addresses(count: u16) -> Vec<Address> {
    let address = |port| Address::Ip(([192, 0, 2, 1], port).into());
    (1..=count).map(address).collect()
}

/// Runs the options against servers whose connections have these stories in turn.
fn run(
    options: &Options,
    addresses: &[Address],
    stories: Vec<Story>,
) -> (Result<Report, RunError>, Seen) {
    let (report, seen, _) = watched(options, addresses, stories, Slow::default());
    (report, seen)
}

/// As [`run`], on a machine that may be slow, with the windows of the run.
fn watched(
    options: &Options,
    addresses: &[Address],
    stories: Vec<Story>,
    slow: Slow,
) -> (Result<Report, RunError>, Seen, Vec<Window>) {
    let plan = Plan::new(options).unwrap();
    let begun = Instant::now();
    let seen = Rc::new(RefCell::new(Seen::default()));
    let is_h2 = options.version == Some(Version::H2c);
    let simulation = Simulation::new(begun, is_h2, stories, Rc::clone(&seen));
    let (control, (sender, windows)) = (Control::new(), mpsc::channel());
    if options.threads > 1 {
        // Another worker was quicker.
        control.begun(Some(0));
    }
    let system = Box::new(simulation.slow(slow));
    // Of several origins each has an address of its own.
    let addresses: Vec<_> = match plan.origins.len() {
        1 => vec![addresses.to_vec()],
        _ => addresses.iter().map(|one| vec![one.clone()]).collect(),
    };
    assert_eq!(addresses.len(), plan.origins.len());
    let clock = Clock(begun);
    let worker = Worker::new(0, &plan, &control, &addresses, clock, system, sender);
    let report = worker.run();
    (report, seen.take(), windows.iter().collect())
}

/// The report of a run as a result.
fn outcome(options: &Options, report: Report) -> Outcome {
    let machine = Machine {
        started_at: SystemTime::UNIX_EPOCH,
        dns: Duration::ZERO,
        steal: 0.0,
        others: None,
        server_is_full: false,
        interrupted: false,
        peak_rss_bytes: None,
    };
    Outcome::new(
        &Plan::new(options).unwrap(),
        vec![report],
        Vec::new(),
        &machine,
    )
}

fn counted(requests: u64, version: Version) -> Options {
    let is_quic = version == Version::H3;
    Options {
        urls: vec![
            if is_quic {
                "https://a.example/"
            } else {
                "http://a.example/"
            }
            .into(),
        ],
        version: Some(version),
        insecure: is_quic,
        connections: 8,
        streams: if version == Version::H1 { 1 } else { 4 },
        requests: Some(requests),
        ..Options::default()
    }
}

/// A run of so long behind a warm-up of so long, in milliseconds.
fn timed(warmup: u64, duration: u64, version: Version) -> Options {
    Options {
        requests: None,
        warmup: Some(Duration::from_millis(warmup)),
        duration: Some(Duration::from_millis(duration)),
        ..counted(0, version)
    }
}

fn connections(report: &Report) -> ConnectionsOut {
    ConnectionsOut::new(&report.connections, &report.concurrency)
}

fn most(durations: &Durations) -> f64 {
    durations.summary().max.unwrap()
}

fn after(millis: u64) -> Serve {
    Serve {
        delay: Duration::from_millis(millis),
        ..Serve::well()
    }
}

#[test]
fn what_is_due_waits_for_a_worker_that_still_makes_its_connections() {
    // The run has begun, by another worker's connections, and one of this worker's has room.
    for version in [Version::H1, Version::H2c, Version::H3] {
        let options = Options {
            rate: Some(1000.0),
            threads: 2,
            ..timed(0, 300, version)
        };
        let stories = vec![Story::Serve(after(5)), Story::Deaf];
        let (report, _) = run(&options, &addresses(1), stories);
        let report = report.unwrap();
        let recorder = report.recorder;
        // Every other millisecond, and no more than its share.
        assert!((1..=150).contains(&recorder.started), "{version:?}");
        assert_eq!(recorder.failures.total(), 0);
    }
}

#[test]
fn no_more_requests_leave_before_the_settings_than_a_server_is_known_to_allow() {
    for (allowed, strict) in [(5, true), (100, false)] {
        let serve = Serve {
            streams: Some(allowed),
            strict,
            ..Serve::well()
        };
        let options = Options {
            connections: 2,
            streams: 32,
            requests_per_connection: Some(64),
            ..counted(640, Version::H2c)
        };
        let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(serve)]);
        let recorder = report.unwrap().recorder;
        let outcome = (recorder.ok, recorder.failures.total(), recorder.retried);
        assert_eq!(outcome, (640, 0, 0), "{allowed}");
        // Later connections wait for nothing.
        assert_eq!(seen.unsettled, 32.min(allowed as usize));
    }
}

#[test]
fn what_to_do_is_about_the_status_that_most_responses_had_instead() {
    let options = counted(20, Version::H1);
    let (report, _) = run(&options, &addresses(1), vec![Story::Serve(Serve::well())]);
    let mut outcome = outcome(&options, report.unwrap());
    outcome.requests.failures = BTreeMap::from([("status", serde_json::json!({ "count": 3 }))]);
    for (most, told) in [
        ("401", "authorization"),
        ("404", "--expect-status"),
        ("421", "--allow-host"),
        ("429", "a lower -R"),
    ] {
        let status = [("200", 9), ("503", 1), (most, 2)];
        outcome.status = status.map(|(code, count)| (code.to_owned(), count)).into();
        let said = advice(&outcome);
        assert!(said.contains(told), "{most}: {said}");
    }
}

#[test]
fn a_server_that_says_why_it_ends_connections_needs_no_guess() {
    let options = counted(20, Version::H1);
    let serve = Serve {
        answers: 0,
        ..Serve::well()
    };
    let (report, _) = run(&options, &addresses(1), vec![Story::Serve(serve)]);
    let mut outcome = outcome(&options, report.unwrap());
    assert!(hint(&outcome).contains("PROXY protocol"));
    // As one that asks for a client certificate does, behind the handshake of TLS 1.3.
    outcome.connections.lost.insert("tls", 20);
    assert_eq!(hint(&outcome), "");
}

#[test]
fn a_response_with_bytes_behind_it_has_failed() {
    let another = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    for (content, surplus) in [(None, "x"), (Some(0), "x"), (None, another)] {
        let serve = Serve {
            content,
            surplus,
            ..Serve::well()
        };
        let options = counted(20, Version::H1);
        let (report, _) = run(&options, &addresses(1), vec![Story::Serve(serve)]);
        let report = report.unwrap();
        let failures: Vec<_> = report.recorder.failures.iter().collect();
        let [(FailureKind::Protocol, 20, text)] = failures[..] else {
            panic!("{failures:?}")
        };
        let bytes = surplus.len();
        assert!(text.starts_with(&format!("{bytes} bytes came behind")));
        assert_eq!((report.recorder.ok, report.recorder.started), (0, 20));
        assert_eq!(connections(&report).lost["protocol"], 20);
    }
}

#[test]
fn every_address_of_a_host_is_tried() {
    for version in [Version::H1, Version::H3] {
        let stories = vec![Story::Listen(vec![(3, Serve::well())])];
        let (report, _) = run(&counted(40, version), &addresses(3), stories);
        let recorder = report.unwrap().recorder;
        assert_eq!((recorder.ok, recorder.failures.total()), (40, 0));
    }
}

#[test]
fn a_host_without_a_listener_is_refused() {
    for version in [Version::H1, Version::H3] {
        let (report, seen) = run(&counted(40, version), &addresses(2), vec![Story::Refuse]);
        assert_eq!(report.unwrap_err().kind, Some(FailureKind::Refused));
        assert!(seen.connects >= 2);
    }
}

#[test]
fn no_request_is_overtaken_for_ever_by_those_that_are_sent_again() {
    // FINDINGS R6, in a legal way of nginx: GOAWAY after ten answers.
    let serve = Serve {
        answers: 10,
        ending: Ending::Goaway,
        ..Serve::well()
    };
    for (requests, version) in [(3000, Version::H2c), (500, Version::H3)] {
        let options = Options {
            connections: 1,
            streams: 128,
            ..counted(requests, version)
        };
        let stories = vec![Story::Serve(serve.clone())];
        let (report, seen) = run(&options, &addresses(1), stories);
        let recorder = report.unwrap().recorder;
        assert_eq!((recorder.ok, recorder.failures.total()), (requests, 0));
        assert_eq!(seen.taken, requests);
    }
}

#[test]
fn requests_that_no_server_takes_end_a_run_by_time() {
    // FINDINGS R1.
    let serve = Serve {
        section: Some(10),
        ..Serve::well()
    };
    for version in [Version::H2c, Version::H3] {
        let options = Options {
            requests: None,
            duration: Some(Duration::from_secs(2)),
            connect_timeout: Duration::from_secs(1),
            ..counted(0, version)
        };
        let stories = vec![Story::Serve(serve.clone())];
        let (report, seen) = run(&options, &addresses(1), stories);
        let error = report.unwrap_err();
        assert_eq!(error.kind, Some(FailureKind::Limit), "{error}");
        // Over HTTP/3 requests leave with the end of the handshake, before SETTINGS can have come.
        assert!(seen.taken == 0 || version == Version::H3);
    }
}

#[test]
fn a_server_that_allows_no_streams_ends_a_counted_run() {
    // FINDINGS R3.
    let serve = Serve {
        streams: Some(0),
        ..Serve::well()
    };
    for version in [Version::H2c, Version::H3] {
        let stories = vec![Story::Serve(serve.clone())];
        let (report, seen) = run(&counted(10, version), &addresses(1), stories);
        let report = report.unwrap();
        let reason = report.cut_short.unwrap();
        assert!(reason.contains("the server allows no streams"), "{reason}");
        assert_eq!((report.recorder.started, seen.taken), (0, 0));
    }
}

#[test]
fn what_waits_to_be_sent_again_keeps_no_run_from_its_end() {
    let refuses = Serve {
        answers: 0,
        ending: Ending::Goaway,
        ..Serve::well()
    };
    let takes_none = Serve {
        streams: Some(0),
        ..Serve::well()
    };
    // Over QUIC the client knows what is allowed before it sends anything.
    let options = Options {
        connections: 2,
        ..counted(10, Version::H3)
    };
    let stories = [takes_none, refuses].map(Story::Serve);
    let (report, seen) = run(&options, &addresses(1), stories.into());
    let report = report.unwrap();
    let reason = report.cut_short.unwrap();
    assert!(reason.contains("no connection took a request"), "{reason}");
    let recorder = report.recorder;
    assert!(recorder.started > 0, "they wait to be sent again");
    assert_eq!(
        (recorder.ok, recorder.failures.total(), seen.taken),
        (0, 0, 0)
    );
}

#[test]
fn requests_wait_for_all_connections_and_each_is_accounted_for() {
    // FINDINGS E8 and E9.
    for warmup in [0, 100] {
        let options = Options {
            connections: 32,
            ..timed(warmup, 300, Version::H1)
        };
        let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(after(10))]);
        let counts = connections(&report.unwrap());
        assert_eq!((counts.attempted, counts.established), (32, 32));
        assert_eq!((counts.open_at_start, counts.open_at_end), (32, 32));
        assert_eq!((counts.open_at_most, counts.in_flight_at_most), (32, 32));
        // Eight at a time, then twice as many: they take no longer.
        assert_eq!((counts.handshakes_at_most, seen.connects), (16, 32));
    }
}

#[test]
fn connections_that_come_in_the_warm_up_are_open_at_the_start() {
    for (warmup, open) in [(0, 1), (100, 8)] {
        let options = Options {
            connect_rate: Some(100.0),
            ..timed(warmup, 300, Version::H1)
        };
        let (report, _) = run(&options, &addresses(1), vec![Story::Serve(after(10))]);
        assert_eq!(connections(&report.unwrap()).open_at_start, open);
    }
}

#[test]
fn the_account_of_connections_says_how_they_went() {
    // FINDINGS E9.
    let serve = Serve {
        answers: 5,
        ..after(10)
    };
    let stories = vec![Story::Serve(serve), Story::Refuse];
    let (report, seen) = run(&timed(0, 1000, Version::H1), &addresses(1), stories);
    let report = report.unwrap();
    let counts = connections(&report);
    assert_eq!(counts.attempted, seen.connects);
    let lost = counts.lost["closed"];
    assert_eq!(counts.established, lost + counts.open_at_end);
    let failures: BTreeMap<_, _> = report
        .recorder
        .failures
        .iter()
        .map(|(kind, count, _)| (kind.name(), count))
        .collect();
    assert_eq!(failures["closed"], lost, "each takes its request with it");
    // Those of the beginning found no request to take.
    let (refused, failed) = (counts.failed["refused"], failures["refused"]);
    assert!(failed > 0 && failed <= refused, "{failed} of {refused}");
}

#[test]
fn a_server_that_is_too_slow_makes_requests_queue_and_none_late() {
    // FINDINGS E6: at most 400 requests a second can be answered.
    let options = Options {
        connections: 4,
        rate: Some(500.0),
        ..timed(0, 2000, Version::H1)
    };
    let (report, _) = run(&options, &addresses(1), vec![Story::Serve(after(10))]);
    let recorder = report.unwrap().recorder;
    assert_eq!(most(&recorder.late), 0.0);
    assert!(
        most(&recorder.of_all_requests().wait) > 0.3,
        "{}",
        most(&recorder.of_all_requests().wait)
    );
    assert!(most(&recorder.service) < 0.011);
    assert!(most(&recorder.response) > 0.3);
}

#[test]
fn a_worker_that_wakes_late_does_not_blame_the_server() {
    // FINDINGS E6.
    let options = Options {
        connections: 4,
        rate: Some(100.0),
        ..timed(0, 1000, Version::H1)
    };
    let slow = Slow {
        waking: Duration::from_millis(3),
        ..Slow::default()
    };
    let (report, ..) = watched(&options, &addresses(1), vec![Story::Serve(after(1))], slow);
    let recorder = report.unwrap().recorder;
    assert_eq!(most(&recorder.of_all_requests().wait), 0.0);
    assert!((0.003..0.004).contains(&most(&recorder.late)));
}

#[test]
fn windows_tell_of_each_tenth_of_a_second() {
    // FINDINGS E15.
    for warmup in [0, 130] {
        let options = timed(warmup, 450, Version::H1);
        let stories = vec![Story::Serve(after(10))];
        let (report, _, windows) = watched(&options, &addresses(1), stories, Slow::default());
        let recorder = report.unwrap().recorder;
        let told: Vec<_> = windows
            .iter()
            .map(|window| (window.index, window.length_ns / 1_000_000, window.open))
            .collect();
        let whole = |index| (index, 100, 8);
        assert_eq!(told, [whole(0), whole(1), whole(2), whole(3), (4, 50, 8)]);
        // Eight connections, an answer every ten milliseconds.
        assert!(windows[1..4].iter().all(|window| window.ok == 80));
        assert_eq!(
            windows.iter().map(|window| window.ok).sum::<u64>(),
            recorder.ok
        );
    }
}

#[test]
fn what_is_read_between_warm_up_and_measurement_is_no_time_of_either() {
    // FINDINGS E14: one millisecond for each of eight connections.
    let slow = Slow {
        reading: Duration::from_millis(1),
        ..Slow::default()
    };
    let stories = vec![Story::Serve(after(10))];
    let options = timed(100, 300, Version::H1);
    let (report, _, windows) = watched(&options, &addresses(1), stories, slow);
    assert_eq!(report.unwrap().measured, 292_000_000);
    assert_eq!(windows[0].length_ns, 92_000_000);
}

#[test]
fn a_timeout_takes_as_long_as_it_says() {
    // FINDINGS E13: the second request begins while the limit of the first is watched.
    let serve = Serve {
        answers: 1,
        ending: Ending::Silence,
        ..after(600)
    };
    for version in [Version::H1, Version::H2c, Version::H3] {
        let options = Options {
            connections: 1,
            streams: 1,
            timeout: Duration::from_secs(1),
            ..counted(2, version)
        };
        let (report, _) = run(&options, &addresses(1), vec![Story::Serve(serve.clone())]);
        let recorder = report.unwrap().recorder;
        assert_eq!((recorder.ok, recorder.censored), (1, 1), "{version:?}");
        assert_eq!(most(&recorder.service), 1.0, "{version:?}");
        let (kind, count, text) = recorder.failures.iter().next().unwrap();
        assert_eq!((kind, count), (FailureKind::Timeout, 1));
        assert!(text.contains("no complete response within 1s"), "{text}");
    }
}

#[test]
fn a_request_that_is_sent_again_has_taken_the_time_of_both() {
    let serve = Serve {
        refuses: Some(2),
        ..after(50)
    };
    for version in [Version::H2c, Version::H3] {
        let options = Options {
            connections: 1,
            streams: 1,
            ..counted(2, version)
        };
        let (report, _) = run(&options, &addresses(1), vec![Story::Serve(serve.clone())]);
        let recorder = report.unwrap().recorder;
        assert_eq!((recorder.ok, recorder.retried), (2, 1));
        assert!(most(&recorder.service) >= 0.1, "{version:?}");
    }
}

#[test]
fn a_server_that_refuses_everything_is_not_asked_for_ever() {
    let serve = Serve {
        refuses: Some(1),
        ..Serve::well()
    };
    let (report, seen) = run(
        &counted(5, Version::H2c),
        &addresses(1),
        vec![Story::Serve(serve)],
    );
    let recorder = report.unwrap().recorder;
    assert_eq!(
        (recorder.ok, recorder.failures.total(), seen.taken),
        (0, 5, 0)
    );
    assert_eq!(recorder.retried, 5 * 63);
}

#[test]
fn datagrams_that_came_together_are_answered_together() {
    let serve = Serve {
        content: Some(100_000),
        ..Serve::well()
    };
    let options = Options {
        connections: 1,
        ..counted(50, Version::H3)
    };
    let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(serve)]);
    assert_eq!(report.unwrap().recorder.ok, 50);
    // Each answer takes some 70 datagrams; an acknowledgement for every second of them would be 35.
    assert!(seen.datagrams < 50 * 5, "{} datagrams", seen.datagrams);
}

#[test]
fn bodies_are_thrown_away_once_the_first_is_known() {
    let serve = Serve {
        content: Some(1000),
        pieces: 64,
        ..Serve::well()
    };
    let options = Options {
        discard_bodies: true,
        connections: 2,
        ..counted(20, Version::H1)
    };
    let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(serve)]);
    let recorder = report.unwrap().recorder;
    assert_eq!((recorder.ok, recorder.traffic.body_received), (20, 20_000));
    // Both connections may have begun to read before one body was known; with a head comes a little.
    let discarded = seen.discarded;
    assert!((16_000..19_000).contains(&discarded), "{discarded} bytes");
    let (summed, most) = recorder.bodies.most();
    let body = recorder.bodies.mean_bytes().zip(most);
    // What nobody has read is in no sum.
    assert!(body.is_some_and(|(mean, most)| (mean, most.1) == (1000.0, summed)));
}

#[test]
fn bodies_that_change_behind_the_first_are_seen() {
    let lying = Serve {
        content: Some(10_000),
        then: Some((20, 10)),
        ..Serve::well()
    };
    let steady = Serve {
        content: Some(10),
        ..Serve::well()
    };
    for version in [Version::H1, Version::H3] {
        let bodies = |serve: &Serve, check_body| {
            let options = Options {
                connections: 1,
                streams: 1,
                check_body,
                ..counted(1000, version)
            };
            let (report, _) = run(&options, &addresses(1), vec![Story::Serve(serve.clone())]);
            let report = report.unwrap();
            let first = report.first.bodies[0].unwrap();
            (first.bytes, report.recorder)
        };
        let (first, lied) = bodies(&lying, false);
        let (_, told) = bodies(&steady, false);
        assert_eq!((first, lied.ok), (10_000, 1000));
        let mean = |recorder: &Recorder| recorder.bodies.mean_bytes().unwrap();
        assert_eq!((mean(&lied), mean(&told)), (209.8, 10.0), "{version:?}");
        // Of most it is the same body, and in the sample there is another one.
        let (summed, most) = told.bodies.most();
        let (body, count) = most.unwrap();
        assert_eq!((body.bytes, count), (10, summed));
        assert!((5..20).contains(&summed), "{summed}");
        let (also, most) = lied.bodies.most();
        let (of_most, times) = most.unwrap();
        assert_eq!((also, of_most), (summed, body));
        assert!(times < also);
        // All of them, where that is asked for.
        let (_, checked) = bodies(&lying, true);
        assert_eq!((checked.ok, checked.failures.total()), (20, 980));
        assert_eq!(checked.bodies.most().0, 20);
    }
}

#[test]
fn a_body_that_is_thrown_away_and_cut_is_a_failure() {
    let serve = Serve {
        content: Some(1000),
        pieces: 64,
        answers: 5,
        ending: Ending::Nonsense,
        ..Serve::well()
    };
    let options = Options {
        discard_bodies: true,
        connections: 1,
        ..counted(12, Version::H1)
    };
    let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(serve)]);
    let recorder = report.unwrap().recorder;
    assert!(seen.discarded > 0);
    // What is not a response is read, and judged.
    assert_eq!(recorder.ok + recorder.failures.total(), 12);
    assert!(recorder.ok < 12);
}
