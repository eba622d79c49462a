//! What a user asked for, as far as it takes to repeat the run.

use serde::Serialize;
use trilane_text::HIDDEN;
use url::Url;

use crate::options::{Options, ProxyProtocol, TlsVersion, Version};

/// URLs that are listed; the number of all is in the plan.
const URLS: usize = 100;
/// The options of a run, without secrets, in the words of the command line.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    /// The first of the URLs.
    pub urls: Vec<String>,
    /// How often each of them was requested, in proportion to the others.
    pub weights: Vec<u32>,
    /// The version; none lets scheme and ALPN decide.
    pub version: Option<&'static str>,
    /// `Name: value`, in order; values of secrets are hidden.
    pub header: Vec<String>,
    /// Ranges of status codes that count as ok; empty: 200…399.
    pub expect_status: Vec<(u16, u16)>,
    /// Whether each body had to equal the first.
    pub check_body: bool,
    /// Whether the kernel threw bodies away unread, once the first of each URL was known.
    pub discard_bodies: bool,
    /// Open model: how late a request might leave, in seconds.
    pub shed_after_s: Option<f64>,
    /// Open model: requests per second on each connection.
    pub rate_per_connection_per_s: Option<f64>,
    /// CRC-32 of the request body, where there is one.
    pub body_crc32: Option<String>,
    /// Most seconds for TCP, TLS and QUIC to be ready.
    pub connect_timeout_s: f64,
    /// Most handshakes under way at a time.
    pub connect_parallel: Option<usize>,
    /// Connections begun in a second.
    pub connect_rate_per_s: Option<f64>,
    /// Seconds between the PINGs of each connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keepalive_s: Option<f64>,
    /// Requests after which a connection is closed and replaced.
    pub requests_per_connection: Option<u64>,
    /// Where to connect instead of the URL's host and port.
    pub connect_to: Option<String>,
    /// Addresses of hosts.
    pub resolve: Vec<String>,
    /// Whether connections went to all addresses of the host in turn.
    pub spread: bool,
    /// Local addresses.
    pub bind: Option<String>,
    /// The proxy, without its user and password.
    pub proxy: Option<String>,
    /// The version of the PROXY protocol: v1 or v2.
    pub proxy_protocol: Option<&'static str>,
    /// Addresses that connections said they came from, by that protocol.
    pub proxy_source: Option<String>,
    /// The name in the TLS handshake.
    pub sni: Option<String>,
    /// The only version of TLS that was offered.
    pub tls_version: Option<&'static str>,
    /// The only cipher suites that were.
    pub ciphers: Vec<String>,
    /// Whether any certificate was accepted.
    pub insecure: bool,
    /// Whether TLS sessions were resumed.
    pub resumption: bool,
    /// Whether requests went in early data where a ticket allowed it.
    pub early_data: bool,
    /// The congestion control of our side.
    pub congestion_control: Option<String>,
    /// QUIC: bytes of UDP payload to begin with, where they were asked for.
    pub quic_initial_packet_size: Option<u32>,
    /// QUIC: the server was asked to acknowledge every so-manieth packet.
    pub quic_ack_frequency: Option<u32>,
    /// QUIC: false where no larger packets were tried.
    pub quic_mtu_discovery: bool,
    /// QUIC: whether the connections of a thread shared a socket.
    pub quic_shared_socket: bool,
    /// Bytes that each stream may receive before more is granted.
    pub stream_window: u32,
    /// Bytes that each connection may receive before more is granted.
    pub connection_window: u32,
    /// The largest frame of HTTP/2 that was taken, in bytes.
    pub max_frame_size: u32,
}

impl From<&Options> for Asked {
    fn from(options: &Options) -> Self {
        let listed = options.all_listed();
        let listed = listed.iter().take(URLS);
        Self {
            urls: listed
                .clone()
                .map(|each| trilane_text::url(&each.url).into_owned())
                .collect(),
            weights: listed.map(|each| each.weight).collect(),
            version: options.version.map(Version::name),
            header: shown(options),
            expect_status: options.statuses.clone(),
            check_body: options.check_body,
            discard_bodies: options.discard_bodies,
            shed_after_s: options.shed_after.map(|latest| latest.as_secs_f64()),
            rate_per_connection_per_s: options.rate_per_connection,
            body_crc32: (!options.body.is_empty())
                .then(|| format!("{:08x}", crc32fast::hash(&options.body))),
            connect_timeout_s: options.connect_timeout.as_secs_f64(),
            connect_parallel: options.connect_parallel,
            connect_rate_per_s: options.connect_rate,
            keepalive_s: options.keepalive.map(|every| every.as_secs_f64()),
            requests_per_connection: options.requests_per_connection,
            connect_to: options.connect_to.clone(),
            resolve: options.resolve.clone(),
            spread: options.spread,
            bind: options.bind.clone(),
            proxy: options.proxy.as_deref().map(without_user),
            proxy_protocol: options.proxy_protocol.map(ProxyProtocol::name),
            proxy_source: options.proxy_source.clone(),
            sni: options.sni.clone(),
            tls_version: options.tls_version.map(|version| match version {
                TlsVersion::V1_2 => "1.2",
                TlsVersion::V1_3 => "1.3",
            }),
            ciphers: options.ciphers.clone(),
            insecure: options.insecure,
            resumption: options.resumption,
            early_data: options.early_data,
            congestion_control: options.congestion_control.clone(),
            quic_initial_packet_size: options.quic_initial_packet_size,
            quic_ack_frequency: options.quic_ack_frequency,
            quic_mtu_discovery: options.quic_mtu_discovery,
            quic_shared_socket: options.quic_shared_socket,
            stream_window: options.stream_window,
            connection_window: options.connection_window,
            max_frame_size: options.max_frame_size,
        }
    }
}

/// The fields of all requests; what a file or the environment has given is hidden whatever it is called.
fn shown(options: &Options) -> Vec<String> {
    let is_hidden = |name: &str| {
        let mut hidden = options.hidden_fields.iter();
        hidden.any(|other| other.eq_ignore_ascii_case(name))
    };
    let fields = options.fields.iter().map(|field| {
        let name = field.split(':').next().unwrap_or_default().trim();
        if is_hidden(name) {
            return format!("{name}: {HIDDEN}");
        }
        trilane_text::field(field).into_owned()
    });
    fields.collect()
}

fn without_user(text: &str) -> String {
    let bare = Url::parse(text).ok().and_then(|mut url| {
        url.set_username("").ok()?;
        url.set_password(None).ok()?;
        Some(url.to_string())
    });
    bare.unwrap_or_else(|| HIDDEN.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_told() {
        let asked = Asked::from(&Options {
            fields: vec![
                "AUTHORIZATION: Bearer geheim".into(),
                "Cookie:geheim".into(),
                "X-Trace: 7".into(),
                "x-api-key: geheim".into(),
                "X-Tenant: geheim".into(),
            ],
            hidden_fields: vec!["x-tenant".into()],
            urls: vec!["http://me:geheim@a/?token=geheim&x=1".into()],
            proxy: Some("http://me:geheim@127.0.0.1:3128".into()),
            ..Options::default()
        });
        let told = serde_json::to_string(&asked).unwrap();
        assert!(!told.contains("geheim"), "{told}");
        assert_eq!(asked.header[2], "X-Trace: 7");
        assert_eq!(asked.header[4], "X-Tenant: [hidden]");
        assert_eq!(asked.urls, ["http://[hidden]@a/?token=[hidden]&x=1"]);
        assert_eq!(asked.proxy.as_deref(), Some("http://127.0.0.1:3128/"));
    }
}
