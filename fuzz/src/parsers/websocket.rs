//! Frames of a WebSocket server: whatever way the bytes are split, they mean the same, and what is told
//! keeps to the limits.

use trilane_wire::websocket::{Decoder, Kind, Limits, Messages, Violation};

const LIMIT: u64 = 1 << 12;

#[derive(Debug, Default, PartialEq)]
struct Told {
    messages: Vec<(Kind, Vec<u8>)>,
    open: Vec<u8>,
    pings: Vec<Vec<u8>>,
    close: Option<(Option<u16>, String)>,
}

impl Messages for Told {
    fn piece(&mut self, _kind: Kind, bytes: &[u8]) {
        assert!(!bytes.is_empty() && self.close.is_none());
        self.open.extend_from_slice(bytes);
        assert!(self.open.len() as u64 <= LIMIT);
    }

    fn end(&mut self, kind: Kind) {
        let message = std::mem::take(&mut self.open);
        if kind == Kind::Text {
            assert!(std::str::from_utf8(&message).is_ok());
        }
        self.messages.push((kind, message));
    }

    fn ping(&mut self, payload: &[u8]) {
        assert!(payload.len() <= 125);
        self.pings.push(payload.to_vec());
    }

    fn close(&mut self, code: Option<u16>, reason: &str) {
        assert!(self.close.is_none());
        self.close = Some((code, reason.to_owned()));
    }
}

fn read(pieces: &[&[u8]]) -> (Told, Result<(), Violation>, bool) {
    let mut decoder = Decoder::new(Limits {
        message_bytes: LIMIT,
    });
    let mut told = Told::default();
    let outcome = pieces
        .iter()
        .try_for_each(|piece| decoder.receive(piece, &mut told));
    if outcome.is_err() {
        // How much of a message that breaks a rule is told first depends on where it is cut.
        told.open.clear();
    }
    (told, outcome, decoder.is_at_boundary())
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    let Some((&at, bytes)) = data.split_first() else {
        return;
    };
    let (head, rest) = bytes.split_at(usize::from(at).min(bytes.len()));
    let whole = read(&[bytes]);
    assert_eq!(whole, read(&[head, rest]));
    assert_eq!(whole, read(&bytes.chunks(1).collect::<Vec<_>>()));
}
