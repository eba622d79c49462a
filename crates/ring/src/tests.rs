//! With pairs of sockets: the other end is the kernel's own.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::*;

const HEADROOM: usize = 32;
const SIZE: u32 = 64;

fn ring(buffers: u16) -> Ring {
    Ring::new(buffers, HEADROOM, SIZE).unwrap()
}

/// The next event; a limit ends a hang.
fn wait(ring: &mut Ring) -> Event {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(event) = ring.next() {
            return event;
        }
        assert!(Instant::now() < end, "no event comes");
        ring.enter(Some(end)).unwrap();
    }
}

/// What the next event has received, and whether more will be.
fn received(ring: &mut Ring) -> (Result<Vec<u8>, Option<rustix::io::Errno>>, bool) {
    let Event::Received {
        received, armed, ..
    } = wait(ring)
    else {
        panic!("another event");
    };
    let received = match received {
        Received::Bytes(filled) => {
            let bytes = ring.bytes(&filled)[HEADROOM..].to_vec();
            assert_eq!(bytes.len(), filled.len());
            ring.give_back(filled);
            Ok(bytes)
        }
        Received::End => Err(None),
        Received::Failed(error) => Err(Some(error)),
    };
    (received, armed)
}

#[test]
fn what_comes_is_received_in_order_until_the_end() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut ring = ring(4);
    ring.receive(&ours, Token::new(7)).unwrap();
    let sent: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
    let copy = sent.clone();
    let writer = std::thread::spawn(move || theirs.write_all(&copy).unwrap());
    let mut all = Vec::new();
    loop {
        match received(&mut ring) {
            (Ok(bytes), armed) => {
                assert!(bytes.len() <= SIZE as usize);
                all.extend(bytes);
                if !armed {
                    ring.receive(&ours, Token::new(7)).unwrap();
                }
            }
            (Err(None), _) => break,
            (Err(Some(rustix::io::Errno::NOBUFS)), armed) => {
                assert!(!armed);
                ring.receive(&ours, Token::new(7)).unwrap();
            }
            (Err(error), _) => panic!("{error:?}"),
        }
    }
    writer.join().unwrap();
    assert!(all == sent);
}

#[test]
fn buffers_that_are_not_given_back_run_out() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut ring = ring(2);
    ring.receive(&ours, Token::new(1)).unwrap();
    let mut kept = Vec::new();
    theirs.write_all(&[1; 3 * SIZE as usize]).unwrap();
    let ended = loop {
        let Event::Received {
            received, armed, ..
        } = wait(&mut ring)
        else {
            panic!("another event");
        };
        match received {
            Received::Bytes(filled) => kept.push(filled),
            other => break (other, armed),
        }
    };
    assert!(matches!(
        ended,
        (Received::Failed(rustix::io::Errno::NOBUFS), false)
    ));
    assert_eq!(kept.len(), 2);
    for filled in kept {
        assert_eq!(ring.bytes(&filled)[HEADROOM..], [1; SIZE as usize]);
        ring.give_back(filled);
    }
    ring.receive(&ours, Token::new(1)).unwrap();
    assert_eq!(received(&mut ring).0, Ok(vec![1; SIZE as usize]));
}

#[test]
fn what_is_sent_arrives_and_comes_back() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut ring = ring(2);
    // More than the submission queue takes at once.
    for number in 0..200u8 {
        ring.send(&ours, vec![number; 3], Token::new(number.into()))
            .unwrap();
    }
    ring.submit().unwrap();
    for number in 0..200u8 {
        let mut bytes = [0; 3];
        theirs.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [number; 3]);
        let Event::Sent { bytes, sent, token } = wait(&mut ring) else {
            panic!("another event");
        };
        assert_eq!(bytes, [number; 3]);
        assert_eq!((sent, token.number()), (Ok(3), number.into()));
    }
}

#[test]
fn a_send_to_nobody_fails_and_kills_nobody() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    let mut ring = ring(2);
    ring.send(&ours, vec![1], Token::new(1)).unwrap();
    let Event::Sent { sent, .. } = wait(&mut ring) else {
        panic!("another event");
    };
    assert_eq!(sent, Err(rustix::io::Errno::PIPE));
}

#[test]
fn cancelled_receiving_says_so_and_leaves_the_rest_in_the_socket() {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let mut ring = ring(2);
    ring.receive(&ours, Token::new(1)).unwrap();
    ring.submit().unwrap();
    ring.stop_receiving(&ours, Token::new(1)).unwrap();
    let (outcome, armed) = received(&mut ring);
    assert_eq!(outcome, Err(Some(rustix::io::Errno::CANCELED)));
    assert!(!armed);
    theirs.write_all(b"left").unwrap();
    let mut bytes = [0; 4];
    ours.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"left");
}

#[test]
fn cancelling_a_socket_ends_all_that_is_under_way_on_it() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut ring = ring(2);
    ring.receive(&ours, Token::new(1)).unwrap();
    ring.poll_each_time(&ours, Token::new(2)).unwrap();
    // More than the socket takes.
    ring.send(&ours, vec![0; 8 << 20], Token::new(3)).unwrap();
    ring.submit().unwrap();
    ring.cancel(&ours).unwrap();
    let mut ended = Vec::new();
    while ended.len() < 2 {
        match wait(&mut ring) {
            Event::Received { armed, .. } => ended.push((1, armed)),
            // That of the poll is not told; the send has sent a part.
            Event::Sent { token, .. } => ended.push((token.number(), false)),
            Event::Ready { .. } => (),
        }
    }
    ended.sort();
    assert_eq!(ended, [(1, false), (3, false)]);
    drop(theirs);
}

#[test]
fn readiness_is_told_once_or_each_time() {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let mut ring = ring(2);
    ring.poll(&ours, Interest::Write, Token::new(1)).unwrap();
    let Event::Ready { token, armed } = wait(&mut ring) else {
        panic!("another event");
    };
    assert_eq!((token.number(), armed), (1, false));
    ring.poll_each_time(&ours, Token::new(2)).unwrap();
    for _ in 0..3 {
        ring.submit().unwrap();
        theirs.write_all(b"x").unwrap();
        let Event::Ready { token, armed } = wait(&mut ring) else {
            panic!("another event");
        };
        assert_eq!((token.number(), armed), (2, true));
        ours.read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn waiting_ends_at_its_time() {
    let mut ring = ring(2);
    let until = Instant::now() + Duration::from_millis(20);
    while Instant::now() < until {
        ring.enter(Some(until)).unwrap();
    }
    assert!(ring.next().is_none());
}

#[test]
fn a_ring_that_is_dropped_at_work_leaves_the_sockets_alone() {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let mut ring = ring(2);
    ring.receive(&ours, Token::new(1)).unwrap();
    ring.submit().unwrap();
    drop(ring);
    theirs.write_all(b"left").unwrap();
    let mut bytes = [0; 4];
    ours.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"left");
}

#[test]
#[should_panic(expected = "buffer")]
fn a_buffer_of_another_ring_is_refused() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut one = ring(2);
    one.receive(&ours, Token::new(1)).unwrap();
    theirs.write_all(b"x").unwrap();
    let Event::Received {
        received: Received::Bytes(filled),
        ..
    } = wait(&mut one)
    else {
        panic!("another event");
    };
    ring(2).bytes(&filled);
}
