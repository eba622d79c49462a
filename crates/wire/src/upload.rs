//! Content that is written while the response may already arrive.

use std::fmt;

use crate::field::{self, FieldList};

/// Most bytes that one call of `write` takes.
pub(crate) const LARGEST_WRITE: usize = 64 * 1024;

/// How far the content of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upload {
    /// `write` and `finish` may be called.
    Open,
    /// No more is taken: the response ended first, the peer asked us to stop, or the request has
    /// ended in another way.
    Stopped,
    /// The content has been given over to its end.
    Ended,
}

/// Why `finish` did not end the content. It stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Fewer bytes have been written than the request announced.
    Short {
        /// How many are missing.
        missing: u64,
    },
    /// A trailer is no field, or one that may not stand there (RFC 9110 §6.5.1).
    Trailer,
    /// The trailers are larger than the peer accepts.
    TooLarge,
}

/// Checks trailers that we send: nothing in them may split the message or change what its head said
/// about framing and routing (RFC 9110 §6.5.1).
pub fn check_trailers(trailers: &FieldList) -> Result<(), Unfinished> {
    let fits = |(name, value): (&[u8], &[u8])| {
        !name.is_empty()
            && name.iter().all(|&b| field::is_token(b))
            && field::is_field_value(value)
            && !is_of_the_head(&name.to_ascii_lowercase())
    };
    if trailers.iter().all(fits) {
        Ok(())
    } else {
        Err(Unfinished::Trailer)
    }
}

fn is_of_the_head(lower: &[u8]) -> bool {
    field::is_connection_specific(lower)
        || matches!(
            lower,
            b"content-length"
                | b"host"
                | b"te"
                | b"trailer"
                | b"content-encoding"
                | b"content-type"
                | b"content-range"
                | b"authorization"
                | b"cookie"
        )
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { missing } => write!(
                f,
                "the content is {missing} bytes shorter than its content-length: write them first"
            ),
            Self::Trailer => f.write_str(
                "a trailer is no field, or one that only the head of a request may have",
            ),
            Self::TooLarge => f.write_str("the trailers are larger than the peer accepts"),
        }
    }
}

impl std::error::Error for Unfinished {}
