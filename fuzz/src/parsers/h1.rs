//! A server's HTTP/1.1 bytes: the quick and the strict reader agree, whatever the splits.

use trilane_wire::h1::{Connection, Limits};
use trilane_wire::{ConnectionError, Encoding, End, FieldList, Upload};

use crate::checker::{Checker, Streams};
use crate::requests::Kind;

type Outcome = (Streams, Option<ConnectionError>);

fn run<const FIELDS: bool>(kind: Kind, limits: Limits, answer: &[u8], step: usize) -> Outcome {
    let mut connection = Connection::new(limits);
    let mut checker = Checker::<FIELDS>::default();
    let mut out = Vec::new();
    let mut lost = None;
    // The same again meets what the connection remembers of the first.
    for slot in 0..3 {
        let Ok(stream) = connection.send(kind.request(Encoding::H1), slot, &mut out) else {
            break;
        };
        checker.sent(stream);
        // Every second time to its end.
        if connection.write(stream, b"content", &mut out) > 0 && slot % 2 == 0 {
            let finished = connection.finish(stream, &FieldList::new(), &mut out);
            assert_eq!(finished, Ok(()));
        }
        assert_eq!(
            connection.upload(stream) == Upload::Open,
            kind == Kind::Streamed && slot % 2 == 1
        );
        let result = answer
            .chunks(step)
            .try_for_each(|piece| connection.receive(piece, &mut checker, &mut out));
        if let Err(error) = result {
            lost = Some(error);
            break;
        }
    }
    if lost.is_none() {
        connection.eof(End::Clean, &mut checker);
    }
    assert_eq!(connection.outstanding(), 0);
    assert!(connection.is_closing());
    checker.over();
    (checker.into_streams(), lost)
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    let [flags, step, answer @ ..] = data else {
        return;
    };
    let kind = match (flags & 1, flags & 4) {
        (0, 0) => Kind::Get,
        (1, 0) => Kind::Head,
        (0, _) => Kind::Streamed,
        _ => Kind::Connect,
    };
    let limits = if flags & 2 == 0 {
        Limits::default()
    } else {
        Limits {
            head_bytes: 100,
            fields: 3,
            informational: 1,
        }
    };
    let step = usize::from(*step).max(1);
    let strict = run::<true>(kind, limits, answer, usize::MAX);
    assert_eq!(run::<false>(kind, limits, answer, usize::MAX), strict);
    assert_eq!(run::<true>(kind, limits, answer, step), strict);
    assert_eq!(run::<false>(kind, limits, answer, step), strict);
}
