//! A connection without sockets, and the other end of TLS by rustls.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection};
use trilane_connection::{
    HEADROOM, Over, Phase, Progress, Stream, StreamConfig, TlsConfig, Version,
};
use trilane_transport::tls;
use trilane_wire::{
    Content, Encoding, ErrorKind, Events, Fields, Head, OneOff, Request, StreamError, StreamId, h2,
};

/// What was reported, in order; pieces of one body in one.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) heads: Vec<u16>,
    pub(crate) body: Vec<u8>,
    /// Content of requests that had not left when their responses ended.
    pub(crate) unsent: u64,
    pub(crate) ended: usize,
    pub(crate) failed: Vec<(ErrorKind, &'static str)>,
}

impl Events for Record {
    const FIELDS: bool = true;

    fn head(&mut self, _stream: StreamId, head: Head<'_>) {
        self.heads.push(head.status);
    }
    fn data(&mut self, _stream: StreamId, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
    fn unsent(&mut self, _stream: StreamId, bytes: u64) {
        self.unsent += bytes;
    }
    fn end(&mut self, _stream: StreamId, _trailers: Option<Fields<'_>>) {
        self.ended += 1;
    }
    fn fail(&mut self, _stream: StreamId, error: StreamError) {
        self.failed.push((error.kind, error.reason));
    }
}

/// A server's end of TLS by rustls, which offers `alpn`. What it writes before the handshake is done
/// goes out with its Finished.
pub(crate) fn tls_server(alpn: &[&str]) -> ServerConnection {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key.into())
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config.send_half_rtt_data = true;
    ServerConnection::new(Arc::new(config)).unwrap()
}

pub(crate) fn plain(version: Version) -> StreamConfig {
    StreamConfig {
        tunnel: None,
        proxy_tls: None,
        tls: None,
        versions: vec![version],
        h2: h2::Config::default(),
        phase_timeout: Some(Duration::from_secs(10)),
    }
}

pub(crate) fn sealed(versions: &[Version]) -> StreamConfig {
    with_tls(versions, false)
}

/// A way to connect by one version that sends early data.
pub(crate) fn early(version: Version) -> StreamConfig {
    with_tls(&[version], true)
}

fn with_tls(versions: &[Version], early_data: bool) -> StreamConfig {
    let alpn = |version: &Version| match version {
        Version::H2 => b"h2".to_vec(),
        _ => b"http/1.1".to_vec(),
    };
    let config = tls::Config::new(&tls::Options {
        authorities: Vec::new(),
        platform: false,
        insecure: true,
        client: None,
        password: None,
        pins: Vec::new(),
        alpn: versions.iter().map(alpn).collect(),
        resumption: early_data,
        early_data,
        version: None,
        ciphers: Vec::new(),
        words: tls::Words::LOAD,
    });
    StreamConfig {
        tls: Some(TlsConfig {
            config: config.unwrap(),
            server_name: "localhost".into(),
        }),
        versions: versions.to_vec(),
        ..plain(Version::H1)
    }
}

pub(crate) fn connected(config: StreamConfig) -> Stream {
    let now = Instant::now();
    let mut stream = Stream::new(Arc::new(config), now);
    assert_eq!(stream.phase(), Phase::Connecting);
    stream.connected(now).unwrap();
    stream
}

/// Everything that the connection has to send.
pub(crate) fn output(stream: &mut Stream) -> Vec<u8> {
    let mut out = Vec::new();
    while let bytes @ [_, ..] = stream.transmit().unwrap() {
        let length = bytes.len();
        out.extend_from_slice(bytes);
        stream.sent(length);
    }
    out
}

/// The connection receives `bytes` in pieces of `size`, each behind what it wanted restored.
pub(crate) fn give(
    stream: &mut Stream,
    bytes: &[u8],
    size: usize,
    record: &mut Record,
) -> Result<Progress, Over> {
    let mut buffer = vec![0; HEADROOM + bytes.len()];
    let mut opened = Progress::Same;
    for piece in bytes.chunks(size.max(1)) {
        let end = HEADROOM + piece.len();
        buffer[HEADROOM..end].copy_from_slice(piece);
        let begin = stream.restore(&mut buffer, HEADROOM);
        if stream.receive(Instant::now(), &mut buffer[begin..end], record)? == Progress::Opened {
            opened = Progress::Opened;
        }
    }
    Ok(opened)
}

/// Carries bytes between the two until neither has any, those for the connection in pieces of `size`.
pub(crate) fn carry(
    stream: &mut Stream,
    server: &mut ServerConnection,
    size: usize,
    record: &mut Record,
) -> Result<(), Over> {
    loop {
        let out = output(stream);
        let mut rest = &out[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets().unwrap();
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        if out.is_empty() && bytes.is_empty() {
            return Ok(());
        }
        give(stream, &bytes, size, record)?;
    }
}

pub(crate) fn get(version: Encoding) -> Request {
    request(version, "GET", Content::Whole([].into()))
}

/// A PUT whose content follows by `write`, in chunks where HTTP/1.1 has to.
pub(crate) fn put(version: Encoding) -> Request {
    let content = Content::Streamed {
        length: None,
        raw: false,
    };
    request(version, "PUT", content)
}

pub(crate) fn request(version: Encoding, method: &str, content: Content) -> Request {
    let parts = OneOff {
        method,
        scheme: "https",
        authority: "localhost",
        path: "/",
        fields: &[],
        content,
    };
    Request::one_off(version, &parts).unwrap()
}

/// What the server has read.
pub(crate) fn plaintext(server: &mut ServerConnection) -> Vec<u8> {
    let mut bytes = vec![0; 64 * 1024];
    let length = server.reader().read(&mut bytes).unwrap_or(0);
    bytes.truncate(length);
    bytes
}

pub(crate) const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
