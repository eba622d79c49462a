//! A tunnel through a proxy: CONNECT (RFC 9110 §9.3.6) over HTTP/1.1, or SOCKS 5.

use trilane_wire::{
    Content, Encoding, Events, FieldList, Fields, Head, OneOff, Refused, Request, RequestError,
    StreamError, StreamId, h1,
};

use crate::socks;

/// The request for a tunnel.
#[derive(Clone, Debug)]
pub struct Tunnel(Way);

#[derive(Clone, Debug)]
enum Way {
    Connect(Request),
    Socks(socks::Request),
}

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
        .map(|request| Self(Way::Connect(request)))
    }

    /// Asks a SOCKS proxy, version 5 (RFC 1928), for a tunnel to `host`, which is an address or a name
    /// that the proxy resolves, with user and password where it wants them (RFC 1929).
    pub fn socks5(
        host: &str,
        port: u16,
        credentials: Option<(&[u8], &[u8])>,
    ) -> Result<Self, String> {
        socks::Request::new(host, port, credentials).map(|request| Self(Way::Socks(request)))
    }
}

/// A tunnel that has been asked for.
#[derive(Debug)]
pub(crate) enum Asking {
    Connect(Box<Connect>),
    Socks(socks::Asking),
}

impl Asking {
    pub(crate) fn new(tunnel: &Tunnel, out: &mut Vec<u8>) -> Result<Self, Refused> {
        match &tunnel.0 {
            Way::Connect(request) => {
                Connect::new(request, out).map(|asking| Self::Connect(Box::new(asking)))
            }
            Way::Socks(request) => Ok(Self::Socks(socks::Asking::new(request, out))),
        }
    }

    /// The fields of the proxy's answer, where HTTP is spoken with it.
    pub(crate) fn into_fields(self) -> Option<FieldList> {
        match self {
            Self::Connect(asking) => Some(asking.answer.fields),
            Self::Socks(_) => None,
        }
    }

    /// Takes what the proxy sends. Once the tunnel is there it says how many bytes of it were the
    /// proxy's own: those behind come from the origin. Once the proxy has refused it, an error with
    /// the status of HTTP, where that is spoken.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, (Option<u16>, String)> {
        match self {
            Self::Connect(asking) => asking.receive(bytes, out),
            Self::Socks(asking) => asking.receive(bytes, out).map_err(|reason| (None, reason)),
        }
    }
}

/// A tunnel that has been asked for by CONNECT.
#[derive(Debug)]
pub(crate) struct Connect {
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

impl Connect {
    fn new(request: &Request, out: &mut Vec<u8>) -> Result<Self, Refused> {
        let mut codec = h1::Connection::new(h1::Limits::default());
        codec.send(request, 0, out)?;
        Ok(Self {
            codec,
            answer: Answer::default(),
        })
    }

    fn receive(
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
