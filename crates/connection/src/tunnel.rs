//! A tunnel through a proxy: CONNECT (RFC 9110 §9.3.6) over HTTP/1.1.

use trilane_wire::{
    Content, Encoding, Events, Fields, Head, OneOff, Refused, Request, RequestError, StreamError,
    StreamId, h1,
};

/// The request for a tunnel.
#[derive(Clone, Debug)]
pub struct Tunnel(Request);

impl Tunnel {
    /// Asks for a tunnel to `host` (an IPv6 address with or without brackets) and `port`, with
    /// `fields` such as proxy-authorization.
    pub fn new(host: &str, port: u16, fields: &[(&[u8], &[u8])]) -> Result<Self, RequestError> {
        let host = host.trim_matches(['[', ']']);
        let authority = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        Request::one_off(
            Encoding::H1,
            &OneOff {
                method: "CONNECT",
                scheme: "http",
                authority: &authority,
                path: &authority,
                fields,
                content: Content::Whole([].into()),
            },
        )
        .map(Self)
    }
}

/// A tunnel that has been asked for.
#[derive(Debug)]
pub(crate) struct Asking {
    codec: h1::Connection,
    answer: Answer,
}

/// What the proxy has said.
#[derive(Debug, Default)]
struct Answer {
    status: Option<u16>,
    reason: String,
}

impl Events for Answer {
    // The reason phrase comes with the fields.
    const FIELDS: bool = true;

    fn head(&mut self, _stream: StreamId, head: Head<'_>) {
        self.status = Some(head.status);
        self.reason = String::from_utf8_lossy(head.reason)
            .escape_default()
            .to_string();
    }

    fn data(&mut self, _stream: StreamId, _bytes: &[u8]) {}

    fn end(&mut self, _stream: StreamId, _trailers: Option<Fields<'_>>) {}

    fn fail(&mut self, _stream: StreamId, _error: StreamError) {}
}

impl Asking {
    pub(crate) fn new(tunnel: &Tunnel, out: &mut Vec<u8>) -> Result<Self, Refused> {
        let mut codec = h1::Connection::new(h1::Limits::default());
        codec.send(&tunnel.0, 0, out)?;
        Ok(Self {
            codec,
            answer: Answer::default(),
        })
    }

    /// Takes what the proxy sends: true once the tunnel is there, an error with the status once the
    /// proxy has refused it. Bytes behind the head of an answer that grants it are an error too: the
    /// client's side of a tunnel speaks first.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, (Option<u16>, String)> {
        let result = self.codec.receive(bytes, &mut self.answer, out);
        match (self.answer.status, result) {
            (Some(200..=299), Ok(())) => Ok(true),
            (None, Ok(())) => Ok(false),
            (None | Some(200..=299), Err(error)) => Err((None, error.to_string())),
            (Some(status), _) => Err((Some(status), self.answer.reason.clone())),
        }
    }
}
