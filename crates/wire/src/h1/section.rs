//! Lines up to an empty one: a response head, or trailers.

use super::Fault;

/// Above this, memory is given back when the section is complete, so that an idle connection stays
/// small whatever one response needed.
const KEPT_CAPACITY: usize = 4 * 1024;

/// A section of which the beginning has arrived.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    /// How far the section has been searched for the empty line.
    scanned: usize,
    /// Where the line begins that the search is in.
    line: usize,
}

impl Held {
    /// Whether the next byte is the first of a section.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What there is of a section that has begun.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Looks for the end of the section that the held bytes begin and `input` continues. Gives the
    /// section, empty line included, and how much of `input` belongs to it; call [`Self::clear`]
    /// when it has been read. `None`: all of `input` belongs to it and is held.
    ///
    /// A section of more than `limit` bytes ends in the fault `over`. `start` checks the beginning
    /// of the section, as much of it as is there, so that a peer that speaks something else is
    /// noticed at once.
    pub(super) fn take<'a>(
        &'a mut self,
        input: &'a [u8],
        limit: usize,
        over: Fault,
        start: fn(&[u8]) -> Result<(), Fault>,
    ) -> Result<Option<(&'a [u8], usize)>, Fault> {
        let before = self.bytes.len();
        let window = &input[..input.len().min(limit - before)];
        if before == 0 {
            start(window)?;
            if let Some(end) = self.find_end(window) {
                return Ok(Some((&input[..end], end)));
            }
        }
        self.bytes.extend_from_slice(window);
        if before > 0 {
            start(&self.bytes)?;
            let bytes = std::mem::take(&mut self.bytes);
            let found = self.find_end(&bytes);
            self.bytes = bytes;
            if let Some(end) = found {
                return Ok(Some((&self.bytes[..end], end - before)));
            }
        }
        if self.bytes.len() >= limit {
            return Err(over);
        }
        Ok(None)
    }

    /// Forgets the section and keeps a moderate amount of memory for the next.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        self.scanned = 0;
        self.line = 0;
    }

    /// Where `section` ends, if it does: after its first empty line. Goes on where the last call
    /// stopped. A line may end with LF alone (RFC 9112 §2.2), as browsers and Python's http.client
    /// take it; the lines of chunks may not.
    fn find_end(&mut self, section: &[u8]) -> Option<usize> {
        while let Some(distance) = section[self.scanned..].iter().position(|&b| b == b'\n') {
            let newline = self.scanned + distance;
            self.scanned = newline + 1;
            if matches!(&section[self.line..newline], b"" | b"\r") {
                return Some(self.scanned);
            }
            self.line = self.scanned;
        }
        self.scanned = section.len();
        None
    }
}
