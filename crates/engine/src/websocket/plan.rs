//! What a session does: checked once.

use trilane_wire::websocket::{Kind, Opcode};

use crate::listed::Listed;
use crate::options::{Options, Version};
use crate::plan::{PlanError, given, usage};
use crate::template::Templates;

/// Messages that a session of the mode `echo` sends, where nothing else was asked for.
const MESSAGES: u64 = 100;
/// What is echoed where no content was given.
const GREETING: &[u8] = b"hello world";
/// Messages that may be under way at a time.
const MOST_WINDOW: usize = 65_536;
/// The largest message, in bytes: what the decoder takes back.
const LARGEST: usize = 64 << 20;
/// What the command line asks of statuses where nothing else was typed.
const DEFAULT_STATUSES: (u16, u16) = (200, 399);
/// Fields that the handshake has by itself.
const OWN: [&str; 6] = [
    "connection",
    "upgrade",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-accept",
    "sec-websocket-extensions",
];

/// What sessions do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebSocketMode {
    /// Messages are sent, and each is awaited back as it was.
    #[default]
    Echo,
    /// Messages of the server are awaited.
    Subscribe,
}

impl WebSocketMode {
    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Subscribe => "subscribe",
        }
    }
}

/// What is asked of WebSocket sessions, beside URL and content.
#[derive(Clone, Debug)]
pub struct WebSocket {
    /// What they do.
    pub mode: WebSocketMode,
    /// `echo`: how many messages each sends; without it a hundred. `subscribe`: after how many messages
    /// of the server each is closed; without it the server does.
    pub messages: Option<u64>,
    /// `echo`: how many messages may wait for their echo at a time.
    pub window: usize,
    /// Whether the content is sent as a binary message, and not as text.
    pub binary: bool,
}

impl Default for WebSocket {
    fn default() -> Self {
        Self {
            mode: WebSocketMode::default(),
            messages: None,
            window: 1,
            binary: false,
        }
    }
}

/// The same, checked.
#[derive(Debug)]
pub(crate) struct SocketPlan {
    /// HTTP/1.1 or HTTP/2, which sessions are opened in.
    pub(crate) version: Version,
    pub(crate) mode: WebSocketMode,
    pub(crate) kind: Kind,
    /// What is sent: in the mode `subscribe` once, where it is not empty.
    pub(crate) payload: Box<[u8]>,
    /// See [`WebSocket::messages`].
    pub(crate) messages: Option<u64>,
    pub(crate) window: usize,
}

impl SocketPlan {
    /// Whether sessions share connections, each on a stream of its own (RFC 8441).
    pub(crate) fn is_multiplexed(&self) -> bool {
        self.version != Version::H1
    }

    pub(crate) fn opcode(&self) -> Opcode {
        match self.kind {
            Kind::Text => Opcode::Text,
            Kind::Binary => Opcode::Binary,
        }
    }

    /// How many messages a session sends.
    pub(crate) fn sends(&self) -> u64 {
        match self.mode {
            WebSocketMode::Echo => self.messages.unwrap_or(MESSAGES),
            WebSocketMode::Subscribe => u64::from(!self.payload.is_empty()),
        }
    }

    /// How many messages of the server a session awaits, where that is known.
    pub(crate) fn awaits(&self) -> Option<u64> {
        match self.mode {
            WebSocketMode::Echo => Some(self.sends()),
            WebSocketMode::Subscribe => self.messages,
        }
    }

    /// The sessions of a run with these requests, at least one; none where they are no WebSockets.
    pub(crate) fn new(options: &Options, listed: &[Listed]) -> Result<Option<Self>, PlanError> {
        let url = &listed[0].url;
        let is_websocket = is_websocket(url);
        let mut others = listed.iter();
        if let Some(other) = others.find(|other| self::is_websocket(&other.url) != is_websocket) {
            return Err(other.place(PlanError::Usage(format!(
                "{url} and {}: one of them is a WebSocket and the other is not: run load once for each",
                other.url
            ))));
        }
        let asked = match &options.websocket {
            Some(_) if !is_websocket => {
                return usage(format!(
                    "{url} is not the URL of a WebSocket: type ws:// or wss://, or leave the flags --ws… out"
                ));
            }
            None if !is_websocket => return Ok(None),
            asked => asked.clone().unwrap_or_default(),
        };
        let version = version(options, url)?;
        check_others(options, version)?;
        let mode = asked.mode;
        if asked.messages == Some(0) {
            return usage(
                "--ws-messages 0: a session has at least one message: type --ws-messages 1",
            );
        }
        if mode == WebSocketMode::Subscribe && asked.window != 1 {
            return usage(
                "--ws-window is about messages that wait for their echo: leave it out, or type --ws echo",
            );
        }
        if !(1..=MOST_WINDOW).contains(&asked.window) {
            return usage(format!(
                "--ws-window {} is not between 1 and {MOST_WINDOW}: type --ws-window 1",
                asked.window
            ));
        }
        if options.body.len() > LARGEST {
            return usage(format!(
                "--body: a message of {} bytes is larger than {LARGEST}: give a smaller one",
                options.body.len()
            ));
        }
        if !asked.binary && str::from_utf8(&options.body).is_err() {
            return usage("--body is not UTF-8, and so is no text: type --ws-binary");
        }
        let payload = match (mode, options.body.as_slice()) {
            (WebSocketMode::Echo, []) => GREETING,
            (_, body) => body,
        };
        Ok(Some(Self {
            version,
            mode,
            kind: if asked.binary {
                Kind::Binary
            } else {
                Kind::Text
            },
            payload: payload.into(),
            messages: asked.messages,
            window: asked.window,
        }))
    }
}

/// Whether a URL, as it was typed, is one of a WebSocket (RFC 6455 §3).
fn is_websocket(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        scheme.eq_ignore_ascii_case("ws") || scheme.eq_ignore_ascii_case("wss")
    })
}

/// The version that the sessions of `url` are opened in: HTTP/1.1 where none was asked for, also over TLS.
/// A server that chooses HTTP/2 by ALPN may take no WebSockets over it, and one that takes them over
/// HTTP/1.1 is every one.
fn version(options: &Options, url: &str) -> Result<Version, PlanError> {
    let is_secure = url
        .get(..4)
        .is_some_and(|begin| begin.eq_ignore_ascii_case("wss:"));
    match (options.version, is_secure) {
        (Some(Version::H3), _) => usage(
            "--h3: WebSockets over HTTP/3 (RFC 9220) cannot be loaded: type --h1 for HTTP/1.1 or --h2 for HTTP/2",
        ),
        (Some(Version::H2), false) => usage(format!(
            "--h2 needs TLS: type a URL with wss:// and --h2, or {url} --h2c"
        )),
        (Some(Version::H2c), true) => usage(format!(
            "--h2c is HTTP/2 without TLS: type a URL with ws:// and --h2c, or {url} --h2"
        )),
        (version, _) => Ok(version.unwrap_or(Version::H1)),
    }
}

/// Refuses what else was asked for and has no meaning here.
fn check_others(options: &Options, version: Version) -> Result<(), PlanError> {
    let refused = [
        ("--grpc", options.are_calls()),
        ("-X", options.method.is_some()),
        ("--scenario", options.scenario.is_some()),
        ("--requests or --har", !options.listed.is_empty()),
        ("--check-body", options.check_body),
        ("--discard-bodies", options.discard_bodies),
        ("--early-data", options.early_data),
        (
            "--expect-status",
            !matches!(options.statuses[..], [] | [DEFAULT_STATUSES]),
        ),
    ];
    if let Some(flag) = given(&refused) {
        return usage(format!(
            "{flag} has no meaning for a WebSocket: leave it out, or type a URL with http:// or https://"
        ));
    }
    let shared = [
        (
            "--requests-per-connection",
            options.requests_per_connection.is_some(),
        ),
        (
            "--rate-per-connection",
            options.rate_per_connection.is_some(),
        ),
    ];
    if let Some(flag) = given(&shared).filter(|_| version == Version::H1) {
        return usage(format!(
            "{flag} is about requests that share a connection, and over HTTP/1.1 each WebSocket has its own: leave it out, or type --h2 or --h2c for WebSockets that share connections"
        ));
    }
    for text in &options.fields {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        if Templates::default().parse(value)?.is_some() {
            return usage(format!(
                "-H {name:?}: the opening handshake of a WebSocket is the same each time: leave {{seq}}, {{rand:…}}, {{uuid}} and {{csv:…}} out"
            ));
        }
        if OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return usage(format!(
                "-H {name:?}: the opening handshake has this field by itself: leave it out"
            ));
        }
    }
    Ok(())
}
