//! Which fields of a request go on to an upstream as metadata, and which of its response come back.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH,
        CONTENT_TYPE, DATE, EXPECT, HOST, SERVER, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
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

/// Takes away what concerns one connection (RFC 9110 section 7.6.1), and the names of who sends.
pub(super) fn end_to_end(fields: &mut HeaderMap) {
    let named: Vec<HeaderName> = fields
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        fields.remove(name);
    }
    for name in [CONNECTION, TRANSFER_ENCODING, UPGRADE, TE, SERVER, DATE] {
        fields.remove(name);
    }
    for name in ["keep-alive", "proxy-connection"] {
        fields.remove(name);
    }
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
        if !is_of_protocol(name) && !about_content.contains(name) {
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
        is_metadata(name) && !is_of_protocol(name) && !about_content.contains(name)
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

fn is_of_protocol(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("connect-") || name.starts_with("grpc-")
}

/// The metadata of a request of HTTP: [`OWN`], and those with [`PREFIX`], without it.
pub(crate) fn of_rest(fields: &HeaderMap) -> HeaderMap {
    let mut metadata = HeaderMap::new();
    for (name, value) in fields {
        if OWN.contains(&name.as_str()) {
            append(&mut metadata, name.clone(), value);
        } else if let Some(name) = name.as_str().strip_prefix(PREFIX)
            && let Ok(name) = HeaderName::try_from(name)
            && is_metadata(&name)
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
    let taken = [
        CONNECTION,
        CONTENT_LENGTH,
        CONTENT_TYPE,
        DATE,
        HOST,
        SERVER,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
    ];
    !name.as_str().starts_with("grpc-") && !taken.contains(name)
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
            ("x-user", "other"),
            ("traceparent", "00-1-2-00"),
        ]);
        let metadata = of_rest(&all);
        assert_eq!(names(&metadata), ["authorization", "traceparent", "x-user"]);
        assert_eq!(metadata["x-user"], "me");
        let back: HeaderMap = to_rest(&fields(&[
            ("x-shelf", "1"),
            ("grpc-status", "0"),
            ("content-type", "application/grpc"),
        ]))
        .collect();
        assert_eq!(names(&back), ["grpc-metadata-x-shelf"]);
    }
}
