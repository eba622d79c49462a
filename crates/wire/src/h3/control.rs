//! Our control stream (RFC 9114 §6.2.1).

use super::{QuicStreams, frame};

/// Opened at once where the peer grants it, which RFC 9114 §6.2 tells it to.
#[derive(Debug)]
pub(super) struct ControlStream {
    /// `None` until the peer grants it.
    pub(super) id: Option<u64>,
    bytes: Vec<u8>,
    sent: usize,
}

impl ControlStream {
    /// Announces the largest field section that we take.
    pub(super) fn new(field_section: u64) -> Self {
        let mut settings = Vec::new();
        for (id, value) in [(0x06, field_section), (frame::reserved(47), 11)] {
            frame::put_varint(id, &mut settings);
            frame::put_varint(value, &mut settings);
        }
        let mut bytes = vec![0x00];
        frame::put_varint(frame::SETTINGS, &mut bytes);
        frame::put_varint(settings.len() as u64, &mut bytes);
        bytes.extend_from_slice(&settings);
        // A reserved frame: whoever chokes on it would choke on any extension.
        frame::put_varint(frame::reserved(11), &mut bytes);
        frame::put_varint(3, &mut bytes);
        bytes.extend_from_slice(b"t3l");
        Self {
            id: None,
            bytes,
            sent: 0,
        }
    }

    /// Opens the stream and writes what it takes.
    pub(super) fn advance(&mut self, quic: &mut impl QuicStreams) {
        if self.sent == self.bytes.len() {
            return;
        }
        if self.id.is_none() {
            self.id = quic.open_uni();
        }
        let Some(id) = self.id else {
            return;
        };
        while self.sent < self.bytes.len() {
            let written = quic.write(id, &self.bytes[self.sent..]);
            if written == 0 {
                return;
            }
            self.sent += written;
        }
    }
}
