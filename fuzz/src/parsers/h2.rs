//! A server's HTTP/2 bytes, as they are or as frames with plausible headers.

use trilane_wire::h2::{Config, Connection};
use trilane_wire::{ConnectionError, Encoding};

use crate::checker::{Checker, Streams};
use crate::requests::Kind;

/// Frames of which `data` gives type, flags, stream and payload.
fn frames(mut data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let [kind, flags, stream, length, rest @ ..] = data {
        let (payload, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        bytes.extend([kind % 12, *flags, 0, 0, 0, stream % 16]);
        bytes.extend_from_slice(payload);
        data = rest;
    }
    bytes
}

fn run<const FIELDS: bool>(
    config: Config,
    bytes: &[u8],
    step: usize,
) -> (Streams, Option<ConnectionError>) {
    let mut out = Vec::new();
    let mut connection = Connection::new(config, &mut out);
    let mut checker = Checker::<FIELDS>::default();
    let kinds = [Kind::Get, Kind::Head, Kind::Large, Kind::Streamed];
    for (kind, slot) in kinds.into_iter().zip(0..) {
        let request = kind.request(Encoding::H2);
        if let Ok(stream) = connection.send(request, slot, &mut out) {
            checker.sent(stream);
            connection.write(stream, b"content", &mut out);
            // The last is read later, which it should not notice.
            if slot == 3 {
                connection.pause(stream);
            }
        }
    }
    let mut lost = None;
    for piece in bytes.chunks(step) {
        if let Err(error) = connection.receive(piece, &mut checker, &mut out) {
            lost = Some(error);
            break;
        }
        out.clear();
        if connection.has_output() {
            connection.produce(&mut out);
        }
        assert!(out.len() < 1 << 20, "what we answer is bounded");
    }
    if lost.is_none() {
        connection.eof(&mut checker);
    }
    assert_eq!(connection.outstanding(), 0);
    checker.over();
    (checker.into_streams(), lost)
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    let [flags, step, data @ ..] = data else {
        return;
    };
    let bytes = if flags & 1 == 0 {
        frames(data)
    } else {
        data.to_vec()
    };
    let config = if flags & 2 == 0 {
        Config::default()
    } else {
        Config {
            stream_window: 100,
            header_table: 64,
            header_list: 200,
            ..Config::default()
        }
    };
    let whole = run::<true>(config, &bytes, usize::MAX);
    assert_eq!(run::<false>(config, &bytes, usize::MAX), whole);
    assert_eq!(
        run::<true>(config, &bytes, usize::from(*step).max(1)),
        whole
    );
}
