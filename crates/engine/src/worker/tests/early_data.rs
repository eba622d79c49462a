//! Requests in early data, over QUIC.

use super::*;
use crate::phases::EarlyData;

/// A run that resumes a session for each of so many requests, one after the other.
fn resuming(requests: u64) -> Options {
    Options {
        connections: 1,
        streams: 1,
        requests_per_connection: Some(1),
        early_data: true,
        ..counted(requests, Version::H3)
    }
}

fn against(early: Early, options: &Options) -> (Report, Seen) {
    let serve = Serve { early, ..after(10) };
    // The first connection brings a ticket, whatever becomes of the others.
    let mut stories = vec![Story::Serve(serve); 100];
    stories[0] = Story::Serve(after(10));
    let (report, seen) = run(options, &addresses(1), stories);
    (report.unwrap(), seen)
}

#[test]
fn a_request_goes_in_early_data_where_a_ticket_allows_it() {
    let (report, seen) = against(Early::Takes, &resuming(10));
    let recorder = &report.recorder;
    assert_eq!((recorder.ok, recorder.failures.total()), (10, 0));
    assert_eq!((seen.early, seen.connects, recorder.retried), (9, 10, 0));
    let EarlyData {
        accepted,
        rejected,
        requests,
        requests_rejected,
        too_early,
    } = recorder.phases.early;
    assert_eq!((accepted, rejected), (9, 0));
    assert_eq!((requests, requests_rejected, too_early), (9, 0, 0));
    assert_eq!((recorder.phases.full, recorder.phases.resumed), (1, 9));
    // Nothing waits for a handshake: from the beginning of a connection it takes one answer.
    let made = recorder.made.as_ref().unwrap();
    assert!(most(&made.first_byte) < 0.012, "{}", most(&made.first_byte));
    assert_eq!(most(&recorder.of_all_requests().wait), 0.0);
}

#[test]
fn an_answer_that_overtakes_the_next_ticket_waits_for_it() {
    // The answer leaves with the server's Finished, the ticket when it has ours.
    let story = Story::Serve(after(0));
    let (report, seen) = run(&resuming(10), &addresses(1), vec![story]);
    let report = report.unwrap();
    let recorder = &report.recorder;
    assert_eq!((recorder.ok, recorder.failures.total()), (10, 0));
    assert_eq!((recorder.phases.full, recorder.phases.resumed), (1, 9));
    assert_eq!((seen.early, recorder.phases.early.accepted), (9, 9));
    let counts = connections(&report);
    assert_eq!(counts.established, counts.spent + counts.open_at_end);
}

#[test]
fn a_server_that_sends_no_tickets_is_not_waited_for_again() {
    let serve = Serve {
        early: Early::Rejects,
        ..after(10)
    };
    let options = Options {
        early_data: false,
        ..resuming(30)
    };
    let (report, _, windows) = watched(
        &options,
        &addresses(1),
        vec![Story::Serve(serve)],
        Slow::default(),
    );
    let report = report.unwrap();
    assert_eq!((report.recorder.ok, report.recorder.phases.full), (30, 30));
    let millis = windows.iter().map(|window| window.length_ns).sum::<u64>() / 1_000_000;
    assert!((600..1000).contains(&millis), "{millis} ms");
}

#[test]
fn early_data_that_is_rejected_is_sent_again_and_is_no_failure() {
    let (report, seen) = against(Early::Rejects, &resuming(10));
    let recorder = &report.recorder;
    assert_eq!((recorder.ok, recorder.failures.total()), (10, 0));
    assert_eq!((seen.taken, seen.early, seen.most_on_one), (10, 0, 1));
    let early = recorder.phases.early;
    // Each connection but the first: servers that reject early data give no tickets here.
    let tickets = early.rejected;
    assert!(tickets > 0);
    assert_eq!((early.accepted, early.requests_rejected), (0, tickets));
    assert_eq!((early.requests, recorder.retried), (tickets, tickets));
    let counts = connections(&report);
    assert_eq!((counts.spent, counts.established), (10, 10));
}

#[test]
fn what_is_too_early_is_sent_once_more_behind_the_handshake() {
    let (report, seen) = against(Early::Answers425, &resuming(10));
    let recorder = &report.recorder;
    assert_eq!((recorder.ok, recorder.failures.total()), (10, 0));
    let early = recorder.phases.early;
    assert!(early.too_early > 0);
    assert_eq!((early.too_early, early.requests), (seen.early, seen.early));
    assert_eq!((seen.taken, recorder.retried), (10, seen.early));
    assert_eq!(recorder.status[425], seen.early);
    assert_eq!((recorder.started, recorder.ok), (10, 10));
}

#[test]
fn a_server_that_is_gone_takes_its_early_requests_with_it() {
    let mut stories = vec![Story::Deaf; 2];
    stories[0] = Story::Serve(after(10));
    let (report, _) = run(&resuming(4), &addresses(1), stories);
    let recorder = report.unwrap().recorder;
    assert_eq!((recorder.started, recorder.ok), (4, 2));
    let failures: Vec<_> = recorder
        .failures
        .iter()
        .map(|(kind, count, _)| (kind, count))
        .collect();
    assert_eq!(failures, [(FailureKind::HandshakeTimeout, 2)]);
}

#[test]
fn the_open_model_sends_early_what_is_due_before_the_handshake_is_done() {
    let options = Options {
        rate: Some(50.0),
        connections: 4,
        ..resuming(40)
    };
    let (report, seen) = against(Early::Takes, &options);
    let recorder = &report.recorder;
    assert_eq!((recorder.ok, recorder.failures.total()), (40, 0));
    assert_eq!(recorder.phases.early.requests, seen.early);
}
