//! The lengths of messages that pass.

use tonic::Status;
use trilane_grpc::frame::PREFIX;

/// Watches the prefixes of messages, and nothing else of them.
pub(super) struct Meter {
    limit: u32,
    /// Bytes of the open message that are to come.
    left: u32,
    prefix: [u8; PREFIX],
    /// Bytes of the prefix that have come.
    have: usize,
}

impl Meter {
    /// `limit`: most bytes of a message.
    pub(super) fn new(limit: u32) -> Self {
        Self {
            limit,
            left: 0,
            prefix: [0; PREFIX],
            have: 0,
        }
    }

    /// Takes the next bytes of some content. After an error it must not be used again.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let passed = bytes.len().min(self.left as usize);
                self.left -= passed as u32;
                bytes = &bytes[passed..];
                continue;
            }
            let taken = bytes.len().min(PREFIX - self.have);
            self.prefix[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == PREFIX {
                let [_, length @ ..] = self.prefix;
                self.have = 0;
                self.left = u32::from_be_bytes(length);
                if self.left > self.limit {
                    return Err(Status::resource_exhausted(format!(
                        "a message has {} bytes, where {} are the most",
                        self.left, self.limit
                    )));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use trilane_grpc::frame;

    use super::*;

    #[test]
    fn messages_are_measured_however_they_are_cut() {
        let mut content = Vec::new();
        for size in [3, 0, 10, 11] {
            frame::write(&vec![b'x'; size], false, &mut content);
        }
        let whole = content.len();
        for size in 1..=whole {
            let mut meter = Meter::new(11);
            let mut pieces = content.chunks(size);
            assert!(pieces.all(|piece| meter.pass(piece).is_ok()), "{size}");
            let mut meter = Meter::new(10);
            let found = content
                .chunks(size)
                .find_map(|piece| meter.pass(piece).err());
            let status = found.unwrap();
            assert_eq!(
                status.message(),
                "a message has 11 bytes, where 10 are the most"
            );
        }
    }
}
