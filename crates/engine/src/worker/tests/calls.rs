//! gRPC calls against scripted servers.

use super::*;
use crate::grpc::tests::call;
use crate::grpc::{Answers, CallOptions};
use crate::outcome::{Code, Verdict};

/// A run of so many milliseconds in which four calls are in flight.
fn calling(method: &str, milliseconds: u64, asked: CallOptions) -> Options {
    Options {
        call: Some(call(method, "{}")),
        calls: asked,
        connections: 2,
        streams: 2,
        ..timed(0, milliseconds, Version::H2c)
    }
}

/// A server that answers each call with so many messages, one each ten milliseconds.
fn streaming(messages: u32) -> Vec<Story> {
    vec![Story::Serve(Serve {
        calls: true,
        events: Some((messages, Duration::from_millis(10))),
        ..Serve::well()
    })]
}

#[test]
fn streams_that_live_through_the_run_are_its_result() {
    let options = Options {
        // Less than the run, and more than from one message to the next.
        timeout: Duration::from_millis(50),
        ..calling("WatchBooks", 1000, CallOptions::default())
    };
    let (report, _) = run(&options, &addresses(1), streaming(1_000));
    let mut report = report.unwrap();
    let recorder = &mut report.recorder;
    assert_eq!(
        (recorder.started, recorder.ok, recorder.failures.total()),
        (4, 0, 0)
    );
    let received = recorder.calls().received;
    assert!((392..=400).contains(&received), "{received}");
    let gap = recorder.calls().message.summary();
    assert_eq!(gap.count, received);
    let median = gap.p50.unwrap();
    assert!((0.0099..0.0101).contains(&median), "{median}");
    let outcome = outcome(&options, report);
    let reasons = outcome.validity.reasons.iter();
    let codes: Vec<_> = reasons.map(|reason| reason.code).collect();
    assert!(!codes.contains(&Code::NothingOk), "{codes:?}");
    assert_ne!(outcome.validity.verdict, Verdict::Invalid, "{codes:?}");
    let per_second = outcome.grpc.unwrap().messages_per_s;
    let received = per_second["received"].as_f64().unwrap();
    assert!((390.0..401.0).contains(&received), "{received}");
}

#[test]
fn what_did_not_end_in_the_run_is_told_with_a_length_that_it_could_end_in() {
    let slow = || {
        vec![Story::Serve(Serve {
            delay: Duration::from_secs(2),
            ..Serve::well()
        })]
    };
    let quiet = || {
        vec![Story::Serve(Serve {
            calls: true,
            // The first comes in the warm-up, the second after the end.
            events: Some((2, Duration::from_secs(5))),
            ..Serve::well()
        })]
    };
    let watching = Options {
        warmup: Some(Duration::from_millis(100)),
        ..calling("WatchBooks", 200, CallOptions::default())
    };
    for (options, stories, text, advice) in [
        (
            timed(0, 200, Version::H2c),
            slow(),
            "no response ended within 0.2 s",
            "use -d 4s",
        ),
        (
            watching,
            quiet(),
            "no message arrived within 0.2 s",
            "use -d 4s, or --warmup 0s: the warm-up is not counted",
        ),
    ] {
        let (report, _) = run(&options, &addresses(1), stories);
        let validity = outcome(&options, report.unwrap()).validity;
        assert_eq!(validity.reasons[0].code, Code::NothingOk);
        assert_eq!(validity.reasons[0].text, text);
        assert_eq!(validity.reasons[0].advice, advice);
    }
}

#[test]
fn a_stream_that_falls_silent_has_failed_with_a_hint() {
    let options = Options {
        timeout: Duration::from_millis(100),
        ..calling("WatchBooks", 1000, CallOptions::default())
    };
    let stories = vec![Story::Serve(Serve {
        calls: true,
        // The second message comes too late.
        events: Some((2, Duration::from_secs(5))),
        ..Serve::well()
    })];
    let (report, _) = run(&options, &addresses(1), stories);
    let mut recorder = report.unwrap().recorder;
    assert_eq!(recorder.ok, 0);
    let failed = recorder.failures.total();
    assert!(failed >= 32, "{failed}");
    let (kind, _, text) = recorder.failures.iter().next().unwrap();
    assert_eq!(kind, FailureKind::Timeout);
    assert!(
        text.contains("1 had come") && text.contains("--timeout"),
        "{text}"
    );
    let statuses: Vec<_> = recorder.calls().statuses().collect();
    assert_eq!(statuses, [("DEADLINE_EXCEEDED", failed)]);
}

#[test]
fn streams_last_as_long_as_they_may() {
    let asked = CallOptions {
        stream_duration: Some(Duration::from_millis(200)),
        ..CallOptions::default()
    };
    let options = calling("WatchBooks", 1010, asked);
    let (report, seen) = run(&options, &addresses(1), streaming(1_000));
    let mut recorder = report.unwrap().recorder;
    assert_eq!(recorder.failures.total(), 0);
    // Five in a second, on each of four streams.
    assert_eq!((recorder.ok, recorder.started), (20, 24));
    assert_eq!(seen.resets, 20);
    let statuses: Vec<_> = recorder.calls().statuses().collect();
    assert_eq!(statuses, [("CANCELLED", 20)]);
    let lasted = recorder.service.summary();
    assert!(
        lasted.min.unwrap() >= 0.1999 && lasted.max.unwrap() < 0.2002,
        "{lasted:?}"
    );
}

#[test]
fn messages_have_a_rate_of_their_own_on_each_stream() {
    let asked = CallOptions {
        message_rate: Some(100.0),
        stream_duration: Some(Duration::from_secs(60)),
        answers: Answers::Any,
        ..CallOptions::default()
    };
    let options = calling("LookUpBooks", 1000, asked);
    let (report, _) = run(&options, &addresses(1), streaming(1_000));
    let recorder = &mut report.unwrap().recorder;
    assert_eq!((recorder.started, recorder.failures.total()), (4, 0));
    let sent = recorder.calls().sent;
    assert!((396..=404).contains(&sent), "{sent}");
}

#[test]
fn the_place_of_a_call_that_broke_off_is_filled() {
    // The server allows as many streams as calls are to be in flight: each has to be given up for the next.
    for method in ["WatchBooks", "ImportBooks"] {
        let asked = CallOptions {
            max_message: 10,
            ..CallOptions::default()
        };
        let options = Options {
            connections: 1,
            ..calling(method, 200, asked)
        };
        let stories = vec![Story::Serve(Serve {
            calls: true,
            events: Some((2, Duration::from_millis(10))),
            content: Some(11),
            streams: Some(2),
            ..Serve::well()
        })];
        let (report, seen) = run(&options, &addresses(1), stories);
        let recorder = report.unwrap().recorder;
        // A millisecond each, two at a time.
        assert!(recorder.started > 300, "{method}: {}", recorder.started);
        let (kind, count, text) = recorder.failures.iter().next().unwrap();
        assert_eq!((kind, count), (FailureKind::Limit, recorder.started - 2));
        assert!(text.contains("--max-message"), "{text}");
        assert!(seen.resets >= count - 2, "{}", seen.resets);
    }
}

#[test]
fn a_run_that_ends_amid_calls_accounts_for_every_one() {
    for (method, messages) in [
        ("GetBook", 1),
        ("WatchBooks", 3),
        ("ImportBooks", 1),
        ("LookUpBooks", 1),
    ] {
        for rate in [None, Some(100.0)] {
            let options = Options {
                rate,
                ..calling(method, 205, CallOptions::default())
            };
            let (report, _) = run(&options, &addresses(1), streaming(messages));
            let mut report = report.unwrap();
            let recorder = &mut report.recorder;
            let (started, ok) = (recorder.started, recorder.ok);
            assert_eq!(recorder.failures.total(), 0, "{method}");
            // In the closed model four are under way whenever it ends.
            let under_way = if rate.is_none() { 4..=4 } else { 0..=4 };
            assert!(ok > 0, "{method}: {started}");
            assert!(
                under_way.contains(&(started - ok)),
                "{method}: {ok} of {started}"
            );
            let statuses: Vec<_> = recorder.calls().statuses().collect();
            assert_eq!(statuses, [("OK", ok)], "{method}");
            let outcome = outcome(&options, report);
            assert_eq!(outcome.requests.abandoned, started - ok);
            let response = outcome.latency.response;
            assert_eq!(response.map(|all| all.summary.count), rate.map(|_| ok));
        }
    }
}
