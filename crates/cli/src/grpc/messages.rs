//! What `-b` has: the messages of a call, as JSON or encoded.

use clap::ValueEnum;
use trilane_engine::{Message, PlanError};
use trilane_grpc::Method;

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    /// JSON values, one after the other.
    Json,
    /// One message, encoded.
    Binary,
    /// Encoded messages, each behind its length as a varint, as `writeDelimitedTo` of protobuf writes them.
    Delimited,
}

impl Encoding {
    /// The messages in `body`, of requests of `method`.
    pub(super) fn messages(self, method: &Method, body: &[u8]) -> Result<Vec<Message>, PlanError> {
        let usage = |text: String| PlanError::Usage(format!("--body: {text}"));
        match self {
            Self::Json => {
                let json = std::str::from_utf8(body).map_err(|_| {
                    usage(
                        "the message is not text: give JSON, or type --message-format binary"
                            .into(),
                    )
                })?;
                Message::all(method, json).map_err(usage)
            }
            Self::Binary => Ok(vec![Message::Encoded(body.to_vec())]),
            Self::Delimited => {
                let messages = delimited(body).map_err(usage)?;
                Ok(messages
                    .into_iter()
                    .map(|each| Message::Encoded(each.to_vec()))
                    .collect())
            }
        }
    }
}

/// The messages of a file in which each stands behind its length.
fn delimited(mut bytes: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let at = messages.len() + 1;
        let (length, rest) = varint(bytes)
            .ok_or_else(|| format!("message {at}: no length stands before it as a varint"))?;
        let Some((message, rest)) = usize::try_from(length)
            .ok()
            .and_then(|length| rest.split_at_checked(length))
        else {
            return Err(format!(
                "message {at}: its length is {length} bytes, and {} are left",
                rest.len()
            ));
        };
        messages.push(message);
        bytes = rest;
    }
    Ok(messages)
}

/// A number in groups of seven bits, the lowest first, and what stands behind it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        let part = u64::from(byte & 0x7f);
        if at == 9 && part > 1 {
            return None;
        }
        value |= part << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stand_behind_their_lengths() {
        let long = [&[0xac, 0x02][..], &[7; 300]].concat();
        let bytes = [&b"\x02ab\x00"[..], &long].concat();
        let found = delimited(&bytes).unwrap();
        let lengths: Vec<_> = found.iter().map(|message| message.len()).collect();
        assert_eq!(lengths, [2, 0, 300]);
        assert_eq!(delimited(b"").unwrap(), Vec::<&[u8]>::new());
        for (bytes, told) in [
            (
                &b"\x02a"[..],
                "message 1: its length is 2 bytes, and 1 are left",
            ),
            (b"\x00\x80", "message 2: no length"),
            (&[0xff; 11], "message 1: no length"),
        ] {
            let error = delimited(bytes).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
