//! A tunnel through a proxy: CONNECT (RFC 9110 §9.3.6) over HTTP/1.1.

use trilane_wire::{
    Content, Encoding, Events, FieldList, Fields, Head, OneOff, Refused, Request, RequestError,
    StreamError, StreamId, h1,
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
    fields: FieldList,
}

impl Events for Answer {
    // The reason phrase comes with the fields.
    const FIELDS: bool = true;
    const ORIGINAL_CASE: bool = true;

    fn head(&mut self, _stream: StreamId, head: Head<'_>) {
        self.status = Some(head.status);
        self.reason = String::from_utf8_lossy(head.reason)
            .escape_default()
            .to_string();
        for (name, value) in head.fields.iter() {
            self.fields.push(name, value);
        }
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

    /// The fields of the proxy's answer.
    pub(crate) fn into_fields(self) -> FieldList {
        self.answer.fields
    }

    /// Takes what the proxy sends. Once the tunnel is there it says how many bytes of it were the
    /// answer: those behind come from the origin (RFC 9110 §9.3.6). Once the proxy has refused it, an
    /// error with the status.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, (Option<u16>, String)> {
        // Byte by byte: what stands behind the answer is none of the codec's business.
        for (taken, byte) in (1..).zip(bytes.chunks(1)) {
            let result = self.codec.receive(byte, &mut self.answer, out);
            match (self.answer.status, result) {
                (Some(200..=299), _) => return Ok(Some(taken)),
                (Some(status), _) => return Err((Some(status), self.answer.reason.clone())),
                (None, Err(error)) => return Err((None, error.to_string())),
                (None, Ok(())) => (),
            }
        }
        Ok(None)
    }
}
