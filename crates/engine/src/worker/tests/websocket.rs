//! WebSocket sessions over HTTP/1.1 and on streams of HTTP/2.

use super::*;
use crate::simulation::Conversation;
use crate::websocket::{WebSocket, WebSocketMode};

const VERSIONS: [Version; 2] = [Version::H1, Version::H2c];

/// So many sessions that send so many messages of so many bytes each.
fn sessions(count: u64, messages: u64, bytes: usize, version: Version) -> Options {
    Options {
        urls: vec!["ws://a.example/chat".into()],
        connections: 2,
        body: vec![b'x'; bytes],
        websocket: Some(WebSocket {
            messages: Some(messages),
            window: 3,
            ..WebSocket::default()
        }),
        ..counted(count, version)
    }
}

fn serve(conversation: Conversation) -> Serve {
    Serve {
        conversation: Some(conversation),
        ..after(5)
    }
}

/// Runs `options` against servers that say this, and gives the counts.
fn talked(options: &Options, conversation: Conversation) -> (Recorder, Seen) {
    let stories = vec![Story::Serve(serve(conversation))];
    let (report, seen) = run(options, &addresses(1), stories);
    (report.unwrap().recorder, seen)
}

fn failures(recorder: &Recorder) -> Vec<(FailureKind, u64, String)> {
    let failures = recorder.failures.iter();
    failures
        .map(|(kind, count, example)| (kind, count, example.to_owned()))
        .collect()
}

#[test]
fn each_echo_is_timed_and_each_session_is_closed() {
    for version in VERSIONS {
        for ends in [false, true] {
            let conversation = Conversation {
                ends,
                ..Conversation::echo()
            };
            let options = sessions(20, 7, 300, version);
            let (mut recorder, seen) = talked(&options, conversation);
            assert_eq!(
                (recorder.ok, recorder.failures.total()),
                (20, 0),
                "{version:?}"
            );
            let counts = recorder.websocket();
            assert_eq!((counts.sent, counts.received), (140, 140));
            let round_trip = counts.round_trip.summary();
            assert_eq!(round_trip.count, 140);
            for echo in [round_trip.min, round_trip.max] {
                assert!((0.0049..0.0052).contains(&echo.unwrap()), "{round_trip:?}");
            }
            // Three of seven may be under way: three trips, and one for the Close frames.
            let session = recorder.service.summary();
            assert!(
                (0.0199..0.0205).contains(&session.max.unwrap()),
                "{session:?}"
            );
            assert_eq!(seen.farewells, [Some(1000); 20]);
            if version == Version::H1 {
                assert_eq!((seen.connects, seen.most_on_one), (20, 1));
            } else {
                assert_eq!((seen.connects, seen.resets), (2, 20));
            }
        }
    }
}

#[test]
fn no_two_frames_have_the_same_mask() {
    for version in VERSIONS {
        let (_, seen) = talked(&sessions(4, 50, 10, version), Conversation::echo());
        // Four bytes at random: that two of some two hundred are the same happens once in 200,000 runs.
        assert!(seen.masks.len() >= 203, "{}", seen.masks.len());
    }
}

#[test]
fn fragments_are_one_message_and_pings_between_them_are_answered() {
    for version in VERSIONS {
        for pieces in [1, 3, usize::MAX] {
            let conversation = Conversation {
                fragment: 100,
                ..Conversation::echo()
            };
            let story = Story::Serve(Serve {
                pieces,
                ..serve(conversation)
            });
            let options = sessions(4, 2, 300, version);
            let (report, seen) = run(&options, &addresses(1), vec![story]);
            let mut recorder = report.unwrap().recorder;
            assert_eq!((recorder.ok, recorder.failures.total()), (4, 0));
            assert_eq!(recorder.websocket().received, 8);
            // Of several that have not been answered the last is enough (RFC 6455 §5.5.3).
            assert!((4..=16).contains(&seen.pongs), "{}", seen.pongs);
        }
    }
}

#[test]
fn messages_larger_than_every_window_come_back() {
    for version in VERSIONS {
        let options = sessions(3, 3, 200_000, version);
        let (mut recorder, _) = talked(&options, Conversation::echo());
        assert_eq!((recorder.ok, recorder.failures.total()), (3, 0));
        assert_eq!(recorder.websocket().round_trip.count(), 9);
    }
}

#[test]
fn a_server_that_closes_early_is_told_with_its_code() {
    for version in VERSIONS {
        for ends in [false, true] {
            let conversation = Conversation {
                closes: Some((2, 1013)),
                ends,
                ..Conversation::echo()
            };
            let (recorder, seen) = talked(&sessions(3, 10, 10, version), conversation);
            let told = "the server closed with code 1013 after 2 messages".to_owned();
            assert_eq!(failures(&recorder), [(FailureKind::Closed, 3, told)]);
            if !ends {
                // Its Close frame is answered, and the stream is reset behind that.
                assert_eq!(seen.farewells, [Some(1000); 3]);
            }
        }
    }
}

#[test]
fn a_server_may_close_when_all_has_been_said() {
    for version in VERSIONS {
        let conversation = Conversation {
            closes: Some((4, 1000)),
            ..Conversation::echo()
        };
        let (recorder, _) = talked(&sessions(3, 4, 10, version), conversation);
        assert_eq!((recorder.ok, recorder.failures.total()), (3, 0));
    }
}

#[test]
fn a_server_that_stops_reading_is_a_timeout_and_holds_up_no_more_than_windows() {
    for version in VERSIONS {
        let conversation = Conversation {
            reads: 2,
            ..Conversation::echo()
        };
        let options = Options {
            timeout: Duration::from_secs(1),
            ..sessions(2, 1000, 50_000, version)
        };
        let (recorder, seen) = talked(&options, conversation);
        let failures = failures(&recorder);
        assert!(
            matches!(failures[..], [(FailureKind::Timeout, 2, _)]),
            "{version:?} {failures:?}"
        );
        if version == Version::H2c {
            // What was in the windows of the two streams: 65,535 bytes of each (RFC 9113 §6.9.2).
            assert!(seen.unread <= 2 * 65_535, "{}", seen.unread);
            assert_eq!(seen.resets, 2);
        }
    }
}

#[test]
fn what_a_server_says_is_measured_as_events() {
    for version in VERSIONS {
        let options = Options {
            websocket: Some(WebSocket {
                mode: WebSocketMode::Subscribe,
                messages: Some(1),
                ..WebSocket::default()
            }),
            events: Some(EventsAsked {
                format: EventFormat::Messages,
                first: Some("^x+$".into()),
                stall: Duration::from_secs(1),
            }),
            ..sessions(6, 1, 10, version)
        };
        let (mut recorder, _) = talked(&options, Conversation::echo());
        assert_eq!((recorder.ok, recorder.failures.total()), (6, 0));
        let events = recorder.events();
        assert_eq!((events.received, events.first.count()), (6, 6));
        let first = events.first.summary().max.unwrap();
        assert!((0.0049..0.0052).contains(&first), "{first}");
    }
}

#[test]
fn sessions_on_streams_are_as_many_as_the_server_allows() {
    let options = Options {
        connections: 1,
        streams: 50,
        ..sessions(60, 2, 10, Version::H2c)
    };
    let story = Story::Serve(Serve {
        streams: Some(6),
        ..serve(Conversation::echo())
    });
    let (report, seen) = run(&options, &addresses(1), vec![story]);
    let report = report.unwrap();
    assert_eq!((report.recorder.ok, seen.connects), (60, 1));
    assert_eq!(report.concurrency.at_most, 6);
}

#[test]
fn a_server_without_the_setting_gets_no_session() {
    let options = sessions(3, 1, 10, Version::H2c);
    let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(Serve::well())]);
    let error = report.unwrap_err();
    assert_eq!(error.kind, Some(FailureKind::Protocol));
    let told = error.to_string();
    assert!(told.contains("SETTINGS_ENABLE_CONNECT_PROTOCOL"), "{told}");
    assert!(told.contains("--h1"), "{told}");
    assert_eq!(seen.taken, 0);
}

#[test]
fn the_open_model_begins_sessions_when_they_are_due() {
    for version in VERSIONS {
        let options = Options {
            rate: Some(100.0),
            connections: 8,
            ..sessions(0, 2, 10, version)
        };
        let options = Options {
            requests: None,
            warmup: Some(Duration::ZERO),
            duration: Some(Duration::from_millis(1000)),
            ..options
        };
        let (recorder, _) = talked(&options, Conversation::echo());
        assert!(
            (99..=101).contains(&recorder.started),
            "{}",
            recorder.started
        );
        assert_eq!(recorder.failures.total(), 0);
        assert_eq!(recorder.response.count(), recorder.ok);
    }
}
