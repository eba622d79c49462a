//! Length-prefixed messages: whatever way the bytes are split, the reader and the collector find the
//! same ones, and those that were found are written as they came.

use trilane_grpc::frame::{Collector, FrameError, Reader, write};

const LIMIT: usize = 1 << 16;

/// Messages with whether they are compressed, how reading went, and whether it ended between two.
type Collected = (Vec<(bool, Vec<u8>)>, Result<(), FrameError>, bool);

fn collect(pieces: &[&[u8]]) -> Collected {
    let mut collector = Collector::new(LIMIT);
    let mut messages = Vec::new();
    for piece in pieces {
        let fed = collector.feed(piece, |compressed, message| {
            messages.push((compressed, message.to_vec()));
        });
        if fed.is_err() {
            return (messages, fed, false);
        }
    }
    (messages, Ok(()), collector.is_at_boundary())
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    let Some((&at, bytes)) = data.split_first() else {
        return;
    };
    let (head, rest) = bytes.split_at(usize::from(at).min(bytes.len()));
    let whole = collect(&[bytes]);
    assert_eq!(whole, collect(&[head, rest]));
    assert_eq!(whole, collect(&bytes.chunks(1).collect::<Vec<_>>()));

    let mut reader = Reader::default();
    let mut count = 0;
    let read = reader
        .count(head, || count += 1)
        .and_then(|()| reader.count(rest, || count += 1));
    let (messages, collected, boundary) = whole;
    // The reader has no limit but that of protobuf.
    if collected.is_ok() {
        assert_eq!(read, Ok(()));
        assert_eq!((count, reader.is_at_boundary()), (messages.len(), boundary));
    }

    let mut again = Vec::new();
    for (compressed, message) in &messages {
        write(message, *compressed, &mut again);
    }
    assert!(bytes.starts_with(&again));
}
