//! The sink that a connection reports to, chosen at compile time.

use crate::error::StreamError;
use crate::field::Fields;

/// One request and its response on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId {
    /// The identifier on the wire; for HTTP/1.1 a count from 1, in the order of sending.
    pub number: u64,
    /// The caller's own index, given to `send` and handed back untouched, so that the caller finds
    /// its state without a map.
    pub slot: u32,
}

/// The head of a response: status code and field section.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The status code, 100…999.
    pub status: u16,
    /// `content-length`, where the response has one.
    pub content_length: Option<u64>,
    /// Bytes that the field section took on the wire: the whole head for HTTP/1.1, the compressed
    /// block without frame headers for HTTP/2 and HTTP/3.
    pub encoded_bytes: usize,
    /// Bytes of the same field section uncompressed, in every version alike: name and value of each field,
    /// the status among them as `:status`; the size of RFC 7541 §4.1 without its 32 for each field.
    pub decoded_bytes: usize,
    /// The reason phrase (RFC 9112 §4), as sent. Empty in HTTP/2 and HTTP/3, and unless
    /// [`Events::FIELDS`] is true.
    pub reason: &'a [u8],
    /// Whether the server answered in HTTP/1.0.
    pub http_1_0: bool,
    /// The fields, in order, names in lower case unless [`Events::ORIGINAL_CASE`] is true, without
    /// `:status`. Empty unless [`Events::FIELDS`] is true.
    pub fields: Fields<'a>,
}

/// What a connection reports. One implementation counts (the load engine), one collects (the
/// client), one records (tests).
///
/// For every stream: any number of `informational`, then at most one `head`, any number of `data`,
/// and exactly one of `end`, with `unsent` before it where content is left, and `fail`, which is the
/// last.
pub trait Events {
    /// Whether [`Head::fields`] and trailers are wanted. Without them nothing is stored per field.
    const FIELDS: bool;

    /// Whether the names of HTTP/1.1 fields are wanted as they were sent, and not in lower case.
    const ORIGINAL_CASE: bool = false;

    /// A 1xx response arrived before the final one.
    fn informational(&mut self, _stream: StreamId, _head: Head<'_>) {}

    /// The final response head arrived, complete.
    fn head(&mut self, stream: StreamId, head: Head<'_>);

    /// A piece of the body, borrowed from the receive buffer. Never empty.
    fn data(&mut self, stream: StreamId, bytes: &[u8]);

    /// So many bytes of the body have come and were thrown away unread, as only
    /// [`crate::h1::Connection::discard`] says.
    fn discarded(&mut self, _stream: StreamId, _bytes: u64) {}

    /// The response is complete, and `bytes` more of the request's content have not left: of a body,
    /// or of what `write` took. May come several times for one stream, always right before `end`.
    fn unsent(&mut self, _stream: StreamId, _bytes: u64) {}

    /// The response is complete, and `bytes` came with its end that belong to no response (RFC 9112 §6.3): the
    /// connection is about to fail for that. Right before `end`, and over HTTP/1.1 alone.
    fn surplus(&mut self, _stream: StreamId, _bytes: u64) {}

    /// The response is complete. The length has been checked against `content-length`.
    fn end(&mut self, stream: StreamId, trailers: Option<Fields<'_>>);

    /// The peer takes no more requests on the connection (GOAWAY, RFC 9113 §6.8), for this error code, and with
    /// this text for people, which may be anything. Only HTTP/2 has both; before the requests that it ends.
    fn goaway(&mut self, _code: u64, _debug: &[u8]) {}

    /// The request failed; nothing more is reported for it.
    fn fail(&mut self, stream: StreamId, error: StreamError);
}
