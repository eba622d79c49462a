//! Which fields of a request go on to an upstream as metadata, and which of its response come back.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH,
        CONTENT_TYPE, EXPECT, HOST, TE, TRAILER,
    },
};

/// In HTTP, metadata of gRPC has this before its name, as grpc-gateway has it.
const PREFIX: &str = "grpc-metadata-";
const TIMEOUT: &str = "grpc-timeout";

/// Fields of a request of HTTP that are metadata under their own names: who asks, and which request it
/// is (W3C Trace Context, W3C Baggage).
const OWN: [&str; 6] = [
    "authorization",
    "traceparent",
    "tracestate",
    "baggage",
    "x-request-id",
    TIMEOUT,
];

/// Whether a field never passes, in either direction: it concerns one connection (RFC 9110 section 7.6.1), says
/// who sends, or who may use a proxy.
fn is_of_connection(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "date"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "server"
            | "te"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Whether a field never comes back: browsers take it for the word of this server on its pages, its cookies, or
/// where else it is. Which pages may read an answer, `--cors-origin` says alone.
fn is_for_browsers(name: &str) -> bool {
    name.starts_with("access-control-")
        || name.starts_with("content-security-policy")
        || name.starts_with("cross-origin-")
        || name.starts_with("sec-")
        || matches!(
            name,
            "alt-svc"
                | "clear-site-data"
                | "content-location"
                | "location"
                | "nel"
                | "origin-agent-cluster"
                | "refresh"
                | "report-to"
                | "reporting-endpoints"
                | "service-worker-allowed"
                | "set-cookie"
                | "set-cookie2"
                | "strict-transport-security"
        )
}

/// Whether a field says who asks, for whom, or what the content is. `Connection` cannot take it away, as it names
/// fields of the connection (RFC 9110 section 7.6.1); and no other name brings a second one.
fn is_end_to_end(name: &str) -> bool {
    OWN.contains(&name)
        || is_of_protocol(name)
        || name.starts_with("content-")
        || name.starts_with("x-forwarded-")
        || matches!(name, "cookie" | "forwarded" | "host" | "via" | "x-real-ip")
}

fn remove(fields: &mut HeaderMap, is_meant: impl Fn(&str) -> bool) {
    // Most have none of them.
    let meant = fields.keys().filter(|name| is_meant(name.as_str()));
    for name in meant.cloned().collect::<Vec<_>>() {
        fields.remove(name);
    }
}

/// Takes away what concerns one connection, and the names of who sends.
fn end_to_end(fields: &mut HeaderMap) {
    if fields.contains_key(CONNECTION) {
        let named: Vec<HeaderName> = fields
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        for name in named {
            if !is_end_to_end(name.as_str()) {
                fields.remove(name);
            }
        }
    }
    remove(fields, is_of_connection);
}

/// The metadata of an upstream's response, as it may pass: in the head, where browsers read it.
pub(super) fn of_response(fields: &mut HeaderMap) {
    end_to_end(fields);
    remove(fields, is_for_browsers);
}

/// Adds what makes the request one of gRPC over HTTP/2.
pub(super) fn make_call(fields: &mut HeaderMap) {
    // A call of gRPC says how its messages are written, such as application/grpc+json.
    fields
        .entry(CONTENT_TYPE)
        .or_insert(HeaderValue::from_static("application/grpc"));
    fields.insert(TE, HeaderValue::from_static("trailers"));
}

/// The metadata of a call of gRPC: all of its fields but those of the connection and the content.
pub(crate) fn of_call(fields: &mut HeaderMap) {
    end_to_end(fields);
    fields.remove(HOST);
    fields.remove(CONTENT_LENGTH);
}

/// The metadata of a request of Connect: all of its fields but those of the connection and the content,
/// and those that Connect and gRPC have taken.
pub(crate) fn of_connect(fields: &HeaderMap) -> HeaderMap {
    let about_content = [
        ACCEPT,
        ACCEPT_ENCODING,
        CONTENT_ENCODING,
        CONTENT_TYPE,
        EXPECT,
    ];
    let mut metadata = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        if !is_of_protocol(name.as_str()) && !about_content.contains(name) {
            metadata.append(name.clone(), value.clone());
        }
    }
    of_call(&mut metadata);
    metadata
}

/// Metadata of a response, as fields of a response of Connect: each with `prefix`, which is empty for
/// what came before the messages.
pub(crate) fn to_connect(metadata: &HeaderMap, prefix: &str) -> Vec<(HeaderName, HeaderValue)> {
    let about_content = [CONTENT_ENCODING, TRAILER];
    let passes = |name: &HeaderName| {
        is_metadata(name) && !is_of_protocol(name.as_str()) && !about_content.contains(name)
    };
    let renamed = |name: &HeaderName| match prefix {
        "" => Some(name.clone()),
        prefix => HeaderName::try_from(format!("{prefix}{name}")).ok(),
    };
    metadata
        .iter()
        .filter(|(name, _)| passes(name))
        .filter_map(|(name, value)| Some((renamed(name)?, value.clone())))
        .collect()
}

fn is_of_protocol(name: &str) -> bool {
    name.starts_with("connect-") || name.starts_with("grpc-")
}

/// The metadata of a request of HTTP: [`OWN`], and those with [`PREFIX`], without it. Who asks is said once, by its
/// own field: what stands before the gateway looks at no other.
pub(crate) fn of_rest(fields: &HeaderMap) -> HeaderMap {
    let mut metadata = HeaderMap::new();
    for (name, value) in fields {
        if OWN.contains(&name.as_str()) {
            append(&mut metadata, name.clone(), value);
        } else if let Some(name) = name.as_str().strip_prefix(PREFIX)
            && let Ok(name) = HeaderName::try_from(name)
            && is_metadata(&name)
            && !is_end_to_end(name.as_str())
        {
            append(&mut metadata, name, value);
        }
    }
    metadata
}

/// Metadata of a response, as fields of a response of HTTP: each with [`PREFIX`].
pub(crate) fn to_rest(metadata: &HeaderMap) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    metadata.iter().filter_map(|(name, value)| {
        let name = is_metadata(name).then(|| format!("{PREFIX}{name}"))?;
        Some((HeaderName::try_from(name).ok()?, value.clone()))
    })
}

/// Names that gRPC and HTTP have taken are no metadata.
fn is_metadata(name: &HeaderName) -> bool {
    let taken = [CONTENT_LENGTH, CONTENT_TYPE, HOST];
    let text = name.as_str();
    !text.starts_with("grpc-") && !is_of_connection(text) && !taken.contains(name)
}

fn append(metadata: &mut HeaderMap, name: HeaderName, value: &HeaderValue) {
    let mut value = value.clone();
    value.set_sensitive(name == AUTHORIZATION);
    metadata.append(name, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    fn names(fields: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = fields.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_concerns_a_connection_stays_on_it() {
        let mut all = fields(&[
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("host", "a"),
            ("content-length", "5"),
            ("x-user", "me"),
            ("grpc-timeout", "1S"),
        ]);
        of_call(&mut all);
        assert_eq!(names(&all), ["grpc-timeout", "x-user"]);
    }

    #[test]
    fn a_connection_cannot_take_away_who_asks() {
        let mut all = fields(&[
            (
                "connection",
                "authorization, Cookie, x-forwarded-for, traceparent, x-hop, grpc-timeout",
            ),
            ("authorization", "Bearer x"),
            ("cookie", "c"),
            ("x-forwarded-for", "::1"),
            ("traceparent", "00-1-2-00"),
            ("x-hop", "1"),
            ("grpc-timeout", "1S"),
            ("proxy-authorization", "Basic x"),
        ]);
        of_call(&mut all);
        let left = [
            "authorization",
            "cookie",
            "grpc-timeout",
            "traceparent",
            "x-forwarded-for",
        ];
        assert_eq!(names(&all), left);
    }

    #[test]
    fn an_upstream_says_nothing_to_browsers() {
        let mut all = fields(&[
            ("access-control-allow-origin", "*"),
            ("access-control-allow-credentials", "true"),
            ("set-cookie", "session=theirs"),
            ("location", "https://evil.example"),
            ("alt-svc", "h3=\":1\""),
            ("strict-transport-security", "max-age=1"),
            ("clear-site-data", "*"),
            ("content-security-policy-report-only", "x"),
            ("server", "theirs"),
            ("x-shelf", "1"),
            ("grpc-status", "5"),
            ("www-authenticate", "Bearer"),
            ("content-type", "application/grpc"),
        ]);
        of_response(&mut all);
        let left = ["content-type", "grpc-status", "www-authenticate", "x-shelf"];
        assert_eq!(names(&all), left);
    }

    #[test]
    fn connect_has_metadata_under_its_own_names() {
        let all = fields(&[
            ("connect-protocol-version", "1"),
            ("connect-timeout-ms", "5"),
            ("grpc-timeout", "1S"),
            ("content-type", "application/proto"),
            ("content-encoding", "gzip"),
            ("accept-encoding", "gzip"),
            ("accept", "*/*"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("host", "a"),
            ("cookie", "c"),
            ("x-blob-bin", "AA"),
        ]);
        assert_eq!(names(&of_connect(&all)), ["cookie", "x-blob-bin"]);
        let back = fields(&[
            ("content-type", "application/grpc"),
            ("content-encoding", "gzip"),
            ("grpc-status", "0"),
            ("grpc-status-details-bin", "AA"),
            ("x-shelf", "1"),
        ]);
        for (prefix, name) in [("", "x-shelf"), ("trailer-", "trailer-x-shelf")] {
            let fields: HeaderMap = to_connect(&back, prefix).into_iter().collect();
            assert_eq!(names(&fields), [name]);
        }
    }

    #[test]
    fn metadata_of_http_has_a_prefix() {
        let all = fields(&[
            ("authorization", "Bearer x"),
            ("cookie", "secret"),
            ("grpc-metadata-x-user", "me"),
            ("grpc-metadata-grpc-timeout", "9S"),
            ("grpc-metadata-te", "x"),
            // Each would be a second one.
            ("grpc-metadata-authorization", "Bearer y"),
            ("grpc-metadata-traceparent", "00-3-4-00"),
            ("grpc-metadata-cookie", "secret"),
            ("grpc-metadata-x-forwarded-for", "::1"),
            ("x-user", "other"),
            ("traceparent", "00-1-2-00"),
        ]);
        let metadata = of_rest(&all);
        assert_eq!(names(&metadata), ["authorization", "traceparent", "x-user"]);
        assert_eq!(metadata["x-user"], "me");
        assert_eq!(metadata.get_all("authorization").iter().count(), 1);
        assert_eq!(metadata.get_all("traceparent").iter().count(), 1);
        let back: HeaderMap = to_rest(&fields(&[
            ("x-shelf", "1"),
            ("grpc-status", "0"),
            ("content-type", "application/grpc"),
        ]))
        .collect();
        assert_eq!(names(&back), ["grpc-metadata-x-shelf"]);
    }
}
