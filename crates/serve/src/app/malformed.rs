//! What makes a request malformed whatever its version of HTTP, where a proxy in front and this server
//! could read different requests.
//!
//! hyper and h2 refuse most of it before, and `h3::section` what h3 lets pass: this is the one place where
//! what is left is checked for all of them.

use http::{
    HeaderValue, Method, Version,
    header::{CONTENT_LENGTH, TE, TRANSFER_ENCODING},
    request::Parts,
};
use trilane_wire::field;

use super::authority;

/// Says why a request is refused, if it is. `is_known`: another that named the same host the same way was
/// not refused for that.
pub(super) fn reason(head: &Parts, is_known: bool) -> Option<&'static str> {
    if !is_known && !authority::is_sound(head) {
        return Some("the request must name one host");
    }
    if !has_path(head) {
        return Some("the request's path must begin with /");
    }
    // RFC 9110 section 8.6.
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    let length = lengths.next();
    if lengths.next().is_some() || length.is_some_and(|length| !is_length(length)) {
        return Some("content-length must be one number");
    }
    if head.version < Version::HTTP_2 {
        // RFC 9112 section 6.1.
        let has_both = length.is_some() && head.headers.contains_key(TRANSFER_ENCODING);
        return has_both.then_some("content-length and transfer-encoding exclude each other");
    }
    let (mut is_of_connection, mut has_padded) = (false, false);
    for (name, value) in &head.headers {
        // RFC 9113 section 8.2.2, RFC 9114 section 4.2.
        is_of_connection |= field::is_connection_specific(name.as_str().as_bytes())
            || name == TE && value != "trailers";
        // RFC 9113 section 8.2.1; RFC 9110 section 5.5, by which RFC 9114 goes.
        has_padded |= is_padded(value);
    }
    if is_of_connection {
        return Some("fields about a connection are of HTTP/1.1 alone");
    }
    has_padded.then_some("a field's value must not begin or end with white space")
}

/// RFC 9113 section 8.3.1, RFC 9114 section 4.3.1, RFC 9112 section 3.2.
fn has_path(head: &Parts) -> bool {
    match head.uri.path_and_query().map(|path| path.as_str()) {
        Some("*") => head.method == Method::OPTIONS,
        Some(path) => path.starts_with('/'),
        // An authority is all that it has.
        None => head.method == Method::CONNECT,
    }
}

fn is_length(value: &HeaderValue) -> bool {
    field::parse_content_length(value.as_bytes()).is_some()
}

fn is_padded(value: &HeaderValue) -> bool {
    let is_white = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
    is_white(value.as_bytes().first()) || is_white(value.as_bytes().last())
}
