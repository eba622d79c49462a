//! What a request of gRPC may not be, whatever service it is for.

use tonic::Status;

use super::MAX_MESSAGE;

/// The prefix of a message: a flag and a length.
const PREFIX: usize = 5;

/// Follows the messages of a request as they come, by their prefixes.
///
/// tonic refuses messages that are too long, as OUT_OF_RANGE, where gRPC has RESOURCE_EXHAUSTED; and it
/// takes no notice of messages behind the one that a method takes.
pub(super) struct Scan {
    /// Whether the method takes one message.
    is_single: bool,
    messages: u64,
    prefix: [u8; PREFIX],
    /// How much of a prefix has come.
    known: usize,
    /// What is missing of a message.
    missing: usize,
}

impl Scan {
    pub(super) fn new(is_single: bool) -> Self {
        Self {
            is_single,
            messages: 0,
            prefix: [0; PREFIX],
            known: 0,
            missing: 0,
        }
    }

    /// Looks at what comes next.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED for a message that is too long; UNIMPLEMENTED for a second one where the
    /// method takes one ("request cardinality violation", doc/statuscodes.md of gRPC).
    pub(super) fn take(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            if self.missing > 0 {
                let taken = self.missing.min(data.len());
                self.missing -= taken;
                data = &data[taken..];
                continue;
            }
            if self.known == 0 && self.is_single && self.messages == 1 {
                return Err(Status::unimplemented(
                    "this method takes one message, and a second one came",
                ));
            }
            let taken = (PREFIX - self.known).min(data.len());
            self.prefix[self.known..self.known + taken].copy_from_slice(&data[..taken]);
            self.known += taken;
            data = &data[taken..];
            if self.known == PREFIX {
                let [_, length @ ..] = self.prefix;
                let length = u32::from_be_bytes(length) as usize;
                if length > MAX_MESSAGE {
                    return Err(Status::resource_exhausted(format!(
                        "a message of {length} bytes is longer than {MAX_MESSAGE} bytes"
                    )));
                }
                self.known = 0;
                self.messages += 1;
                self.missing = length;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn taken(is_single: bool, content: &[u8], piece: usize) -> Result<(), Code> {
        let mut scan = Scan::new(is_single);
        content
            .chunks(piece)
            .try_for_each(|piece| scan.take(piece))
            .map_err(|status| status.code())
    }

    #[test]
    fn messages_are_counted_and_measured_however_they_come() {
        let one = b"\0\0\0\0\x03abc";
        let two = [one.as_slice(), b"\x01\0\0\0\0"].concat();
        let mut long = vec![0];
        long.extend_from_slice(&(MAX_MESSAGE as u32 + 1).to_be_bytes());
        let mut longest = vec![0];
        longest.extend_from_slice(&(MAX_MESSAGE as u32).to_be_bytes());
        for piece in 1..12 {
            assert_eq!(taken(true, one, piece), Ok(()));
            assert_eq!(taken(false, &two, piece), Ok(()));
            assert_eq!(taken(true, &two, piece), Err(Code::Unimplemented));
            assert_eq!(taken(false, &long, piece), Err(Code::ResourceExhausted));
            assert_eq!(taken(true, &longest, piece), Ok(()));
            assert_eq!(taken(true, b"", piece), Ok(()));
        }
    }
}
