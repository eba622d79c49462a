//! What a peer may say on its encoder and decoder streams when neither side has a dynamic table.

use super::integer::Continuation;

/// The peer said what it may not: close with QPACK_ENCODER_STREAM_ERROR or
/// QPACK_DECODER_STREAM_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionError(pub &'static str);

/// The peer's encoder stream (RFC 9204 §4.3), which fills our table of capacity 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct EncoderStream(());

impl EncoderStream {
    /// Takes a piece of the stream.
    ///
    /// The only instruction that fits is Set Dynamic Table Capacity with 0, which is one byte, so
    /// there is nothing to remember between pieces.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), InstructionError> {
        match bytes.iter().find(|&&byte| byte != 0x20) {
            None => Ok(()),
            Some(byte) if byte >> 5 == 1 => Err(InstructionError(
                "a dynamic table capacity above the one granted",
            )),
            Some(byte) if byte >> 5 == 0 => Err(InstructionError(
                "a duplicate of an entry that does not exist",
            )),
            Some(_) => Err(InstructionError(
                "an insertion into a dynamic table of capacity 0",
            )),
        }
    }
}

/// The peer's decoder stream (RFC 9204 §4.4), which acknowledges what our encoder inserted: nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecoderStream {
    /// The stream id of a Stream Cancellation that is cut.
    cancellation: Option<Continuation>,
}

impl DecoderStream {
    /// Takes a piece of the stream.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), InstructionError> {
        for &byte in bytes {
            if let Some(id) = &mut self.cancellation {
                match id.push(byte) {
                    Some(true) => {}
                    Some(false) => self.cancellation = None,
                    None => return Err(InstructionError("a stream id of more than 62 bits")),
                }
            } else if byte & 0x80 != 0 {
                return Err(InstructionError(
                    "an acknowledgement of a field section without dynamic references",
                ));
            } else if byte & 0x40 == 0 {
                return Err(InstructionError("an insert count beyond what was inserted"));
            } else if byte & 0x3f == 0x3f {
                self.cancellation = Some(Continuation::default());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_capacity_0_is_a_valid_encoder_instruction() {
        assert!(EncoderStream::default().receive(&[0x20, 0x20]).is_ok());
        for bad in [0x21, 0x3f, 0x80, 0xc1, 0x40, 0x00, 0x1f] {
            assert!(
                EncoderStream::default().receive(&[0x20, bad]).is_err(),
                "{bad:x}"
            );
        }
    }

    #[test]
    fn only_cancellations_are_valid_decoder_instructions() {
        let mut stream = DecoderStream::default();
        for byte in [0x44, 0x7f, 0x81, 0x01, 0x7f, 0x00] {
            stream.receive(&[byte]).unwrap();
        }
        assert!(stream.receive(&[0x81]).is_err());
        assert!(DecoderStream::default().receive(&[0x00]).is_err());
        assert!(DecoderStream::default().receive(&[0x01]).is_err());
        let endless = [
            0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ];
        assert!(DecoderStream::default().receive(&endless).is_err());
    }
}
