//! PINGs of connections that ask whether their server is there.

use super::*;

#[test]
fn connections_ask_whether_their_server_is_there() {
    let options = Options {
        keepalive: Some(Duration::from_millis(100)),
        connections: 2,
        ..timed(0, 1000, Version::H2c)
    };
    let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(after(5))]);
    let report = report.unwrap();
    // Nine or ten on each, as the first comes a while after the connection.
    assert!((18..=20).contains(&seen.pings), "{}", seen.pings);
    assert_eq!(report.recorder.failures.total(), 0);
    assert_eq!(seen.connects, 2);
}

#[test]
fn a_server_that_answers_no_ping_is_lost() {
    let options = Options {
        keepalive: Some(Duration::from_millis(100)),
        connections: 1,
        streams: 1,
        ..timed(0, 1000, Version::H2c)
    };
    let silent = Serve {
        answers: 5,
        ending: Ending::Silence,
        ..after(1)
    };
    let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(silent)]);
    let report = report.unwrap();
    // Each is left at the second PING, and the next one answers five more.
    assert!(seen.connects >= 4, "{}", seen.connects);
    let failures: Vec<_> = report.recorder.failures.iter().collect();
    let [(kind, count, text)] = failures[..] else {
        panic!("{failures:?}")
    };
    assert_eq!((kind, count), (FailureKind::Closed, seen.connects - 1));
    assert!(text.contains("no answer to a PING within 100ms"), "{text}");
    let out = connections(&report);
    let lost: Vec<_> = out
        .lost
        .iter()
        .map(|(kind, count)| (*kind, *count))
        .collect();
    assert_eq!(lost, [("timeout", seen.connects - 1)]);
}
