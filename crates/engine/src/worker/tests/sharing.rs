//! HTTP/3 connections that share a UDP socket.

use super::*;

fn shared(options: Options) -> Options {
    Options {
        quic_shared_socket: true,
        ..options
    }
}

fn well() -> Vec<Story> {
    vec![Story::Serve(after(5))]
}

#[test]
fn all_connections_of_a_worker_have_one_socket() {
    let options = counted(500, Version::H3);
    for (options, sockets) in [(options.clone(), 8), (shared(options), 1)] {
        let (report, seen) = run(&options, &addresses(1), well());
        let report = report.unwrap();
        let recorder = &report.recorder;
        assert_eq!((recorder.ok, recorder.failures.total()), (500, 0));
        assert_eq!((seen.connects, seen.udp_sockets), (8, sockets));
        assert_eq!(connections(&report).established, 8);
        assert_eq!(report.recorder.traffic.datagrams_dropped, 0);
    }
}

#[test]
fn connections_that_are_replaced_keep_the_socket() {
    let options = Options {
        requests_per_connection: Some(5),
        ..shared(counted(1000, Version::H3))
    };
    let (report, seen) = run(&options, &addresses(1), well());
    let report = report.unwrap();
    assert_eq!(report.recorder.ok, 1000);
    assert!(seen.connects >= 200);
    assert_eq!((seen.udp_sockets, seen.most_on_one), (1, 5));
}

#[test]
fn what_one_connection_suffers_is_nothing_to_the_others() {
    for ending in [Ending::Reset, Ending::Silence, Ending::Nonsense] {
        let bad = Serve {
            answers: 3,
            ending,
            ..after(5)
        };
        let options = Options {
            timeout: Duration::from_millis(500),
            ..shared(timed(0, 1000, Version::H3))
        };
        let stories = vec![Story::Serve(bad), Story::Serve(after(5))];
        let (report, seen) = run(&options, &addresses(1), stories);
        let recorder = report.unwrap().recorder;
        assert!(recorder.failures.total() > 0, "{ending:?}");
        // Half of the connections are good, and each has four requests in flight for 6 ms.
        assert!(recorder.ok > 2000, "{ending:?}: {}", recorder.ok);
        assert_eq!(seen.udp_sockets, 1);
    }
}

#[test]
fn each_address_and_each_source_has_a_socket() {
    // Nobody listens at the first two.
    let stories = vec![Story::Listen(vec![(3, Serve::well())])];
    let options = shared(counted(40, Version::H3));
    let (report, seen) = run(&options, &addresses(3), stories);
    assert_eq!(report.unwrap().recorder.ok, 40);
    assert_eq!(seen.udp_sockets, 3);
    let options = Options {
        bind: Some("192.0.2.7,192.0.2.8".into()),
        ..shared(counted(40, Version::H3))
    };
    let (report, seen) = run(&options, &addresses(1), well());
    assert_eq!(report.unwrap().recorder.ok, 40);
    assert_eq!(seen.udp_sockets, 2);
}

#[test]
fn a_port_where_nobody_listens_is_refused() {
    let options = shared(counted(40, Version::H3));
    let (report, _) = run(&options, &addresses(1), vec![Story::Refuse]);
    assert_eq!(report.unwrap_err().kind, Some(FailureKind::Refused));
}
