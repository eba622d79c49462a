//! Streams: what is under way, what is awaited, and how long they last.

use super::*;

/// A call of `LookUpBooks` that sends so many messages, each of eight bytes.
fn conversation(count: u64, change: impl FnOnce(&mut Options)) -> Plan {
    plan(call("LookUpBooks", r#"{"name": "a"}"#), |options| {
        options.calls.count = Some(count);
        change(options);
    })
    .unwrap()
}

#[test]
fn as_many_messages_are_under_way_as_may_be_and_each_is_timed_to_its_answer() {
    let plan = conversation(6, |options| options.calls.in_flight = Some(3));
    let mut flight = Flight::new(&plan);
    let mut peer = Slow::with_room(1000);
    flight.now = 10 * MILLISECOND;
    flight.advance(&mut peer);
    assert_eq!((peer.messages(), peer.ended), (3, false));
    flight.ok_head();
    flight.now = 13 * MILLISECOND;
    flight.message(b"");
    flight.message(b"");
    flight.advance(&mut peer);
    assert_eq!(peer.messages(), 5);
    // One of the first three, and those two, in one read.
    flight.now = 20 * MILLISECOND;
    for _ in 0..3 {
        flight.message(b"");
    }
    flight.advance(&mut peer);
    assert_eq!((peer.messages(), peer.ended), (6, true));
    flight.now = 21 * MILLISECOND;
    flight.message(b"");
    flight.end(Some(&[("grpc-status", "0")]));
    let recorder = &mut flight.tally.recorder;
    assert_eq!((recorder.ok, recorder.early.count), (1, 0));
    let latency = recorder.calls().recent.summary();
    let near = |found: Option<f64>, ms: f64| {
        let found = found.unwrap();
        assert!((found * 1e3 - ms).abs() < 0.05 * ms, "{found} {ms}");
    };
    // 3, 3, 10, 7, 7 and 1 ms.
    assert_eq!(latency.count, 6);
    near(latency.min, 1.0);
    near(latency.max, 10.0);
    near(latency.mean, 31.0 / 6.0);
}

#[test]
fn answers_may_be_fewer_or_more_than_messages() {
    let one_in_two = conversation(4, |options| options.calls.answers = Answers::OneIn(2));
    let mut flight = Flight::new(&one_in_two);
    let mut peer = Slow::with_room(1000);
    flight.advance(&mut peer);
    assert_eq!(peer.messages(), 2, "as many as have one answer");
    flight.ok_head();
    flight.message(b"");
    flight.advance(&mut peer);
    assert_eq!((peer.messages(), peer.ended), (4, true));
    flight.message(b"");
    flight.end(Some(&[("grpc-status", "0")]));
    assert_eq!(flight.tally.recorder.ok, 1);
    assert_eq!(flight.tally.recorder.calls().recent.count(), 2);

    let three_each = conversation(2, |options| options.calls.answers = Answers::Each(3));
    let mut flight = Flight::new(&three_each);
    let mut peer = Slow::with_room(1000);
    flight.ok_head();
    for (answers, sent) in [(0, 1), (1, 1), (1, 1), (1, 2), (3, 2)] {
        for _ in 0..answers {
            flight.message(b"");
        }
        flight.advance(&mut peer);
        assert_eq!(peer.messages(), sent);
    }
    assert_eq!(flight.tally.recorder.calls().recent.count(), 2);

    let any = conversation(50, |options| options.calls.answers = Answers::Any);
    let mut flight = Flight::new(&any);
    let mut peer = Slow::with_room(1000);
    flight.advance(&mut peer);
    assert_eq!(
        (peer.messages(), peer.ended),
        (50, true),
        "nothing is awaited"
    );
}

#[test]
fn messages_leave_at_their_rate_and_are_timed_from_when_they_were_due() {
    let plan = conversation(10, |options| {
        options.calls.message_rate = Some(1000.0);
        options.calls.in_flight = Some(2);
    });
    let mut flight = Flight::new(&plan);
    let mut peer = Slow::with_room(1000);
    flight.advance(&mut peer);
    assert_eq!(peer.messages(), 1);
    let next = flight.exchanges.calls.next_timer().unwrap();
    assert_eq!(next, 1 + MILLISECOND);
    flight.now = next;
    flight.advance(&mut peer);
    assert_eq!(peer.messages(), 2);
    // The third is due at 2 ms, and has to wait for an answer until 7.
    flight.now = 7 * MILLISECOND;
    flight.advance(&mut peer);
    assert_eq!(peer.messages(), 2);
    flight.ok_head();
    flight.message(b"");
    flight.message(b"");
    flight.advance(&mut peer);
    assert_eq!(peer.messages(), 4, "what was due is not forgotten");
    flight.now = 8 * MILLISECOND;
    flight.message(b"");
    let latency = flight.tally.recorder.calls().recent.summary();
    assert_eq!(latency.count, 3);
    let most = latency.max.unwrap();
    assert!((0.0069..0.0071).contains(&most), "{most}");
}

#[test]
fn a_stream_that_lasts_a_time_ends_its_messages_then() {
    for (half_close, ends) in [(HalfClose::Sent, true), (HalfClose::Never, false)] {
        let plan = plan(call("LookUpBooks", r#"{"name": "a"}"#), |options| {
            options.calls.stream_duration = Some(Duration::from_millis(5));
            options.calls.half_close = half_close;
        })
        .unwrap();
        let mut flight = Flight::new(&plan);
        let mut peer = Slow::with_room(1000);
        flight.ok_head();
        for millisecond in 1..=4 {
            flight.now = millisecond * MILLISECOND;
            flight.advance(&mut peer);
            assert_eq!((peer.messages(), peer.ended), (millisecond as usize, false));
            flight.message(b"");
        }
        flight.now = 6 * MILLISECOND;
        assert!(flight.exchanges.calls.next_timer().unwrap() <= flight.now);
        flight.advance(&mut peer);
        assert_eq!((peer.ended, peer.given_up), (ends, !ends));
        if ends {
            flight.end(Some(&[("grpc-status", "0")]));
            assert_eq!(flight.statuses(), [("OK", 1)]);
        } else {
            assert_eq!(flight.statuses(), [("CANCELLED", 1)]);
        }
        let recorder = &flight.tally.recorder;
        assert_eq!((recorder.ok, recorder.failures.total()), (1, 0));
        assert_eq!(recorder.early.count, 0);
        assert_eq!(flight.exchanges.in_flight(), 0);
    }
}

#[test]
fn a_stream_of_the_server_that_has_lasted_long_enough_is_given_up_and_ok() {
    let plan = plan(call("WatchBooks", "{}"), |options| {
        options.calls.stream_duration = Some(Duration::from_millis(5));
    })
    .unwrap();
    let mut flight = Flight::new(&plan);
    let mut peer = Slow::with_room(0);
    flight.ok_head();
    // Two reads, of two messages and of one.
    flight.now = 3 * MILLISECOND + 1;
    let two = b"\0\0\0\0\0\0\0\0\0\0";
    flight.sink().data(ID, two);
    flight.now += MILLISECOND;
    flight.message(b"");
    flight.now += 2 * MILLISECOND;
    flight.advance(&mut peer);
    assert!(peer.given_up);
    assert_eq!(flight.statuses(), [("CANCELLED", 1)]);
    let recorder = &mut flight.tally.recorder;
    assert_eq!((recorder.ok, recorder.calls().received), (1, 3));
    // Both of one read have come 3 ms after the begin: none took nothing.
    let latency = recorder.calls().recent.summary();
    assert_eq!(latency.count, 3);
    assert!(
        (0.00099..0.00101).contains(&latency.min.unwrap()),
        "{latency:?}"
    );
    assert!(
        (0.00299..0.00301).contains(&latency.max.unwrap()),
        "{latency:?}"
    );
}

#[test]
fn our_direction_may_stay_open_until_all_has_been_answered() {
    let plan = conversation(2, |options| {
        options.calls.half_close = HalfClose::Answered;
        options.calls.in_flight = Some(2);
    });
    let mut flight = Flight::new(&plan);
    let mut peer = Slow::with_room(1000);
    flight.advance(&mut peer);
    flight.ok_head();
    flight.message(b"");
    flight.advance(&mut peer);
    assert_eq!((peer.messages(), peer.ended), (2, false));
    flight.message(b"");
    flight.advance(&mut peer);
    assert!(peer.ended);
}

#[test]
fn frames_of_one_read_have_come_at_the_same_time() {
    let plan = plan(call("WatchBooks", "{}"), |_| ()).unwrap();
    let mut flight = Flight::new(&plan);
    flight.ok_head();
    for read in 1..=2 {
        flight.now = 10 * read * MILLISECOND;
        for _ in 0..3 * read {
            flight.message(b"");
        }
    }
    let latency = flight.tally.recorder.calls().recent.summary();
    assert_eq!(latency.count, 9);
    let near = |found: Option<f64>| (found.unwrap() - 0.01).abs() < 1e-4;
    assert!(near(latency.min) && near(latency.max), "{latency:?}");
}
