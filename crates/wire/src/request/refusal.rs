//! What cannot be sent as a request, and why.

use std::fmt;

use super::RequestParts;
use crate::field;

/// Why [`Request::new`](super::Request::new) or [`Request::one_off`](super::Request::one_off) refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The method is not a token.
    Method(String),
    /// The authority has characters that it may not have.
    Authority(String),
    /// The path has spaces, control characters or does not begin with a slash.
    Path(String),
    /// A field name is not a token.
    FieldName(String),
    /// A field value has CR, LF, NUL or another control character (request splitting).
    FieldValue(String),
    /// A field that follows from the content and the version, or contradicts them.
    Forbidden(String),
    /// The scheme is no URI scheme.
    Scheme(String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method(text) => write!(
                f,
                "method {text:?} cannot be sent: a method is a token such as GET, and CONNECT is for HTTP/1.1 proxies only"
            ),
            Self::Authority(text) => {
                write!(f, "host {text:?} has characters that a host may not have")
            }
            Self::Path(text) => write!(
                f,
                "path {text:?} must begin with '/' and have no spaces or control characters: percent-encode them"
            ),
            Self::FieldName(text) => write!(
                f,
                "header name {text:?} is not a token: write it as 'Name: value'"
            ),
            Self::FieldValue(name) => write!(
                f,
                "the value of header {name:?} has line breaks, control characters or blanks around it"
            ),
            Self::Scheme(text) => write!(
                f,
                "scheme {text:?} cannot be sent: a scheme is a word such as https"
            ),
            Self::Forbidden(name) => write!(
                f,
                "header {name:?} cannot be set here: it follows from the body and the HTTP version"
            ),
        }
    }
}

impl std::error::Error for RequestError {}

/// Refuses parts that would not be one request, or not the one that was meant.
pub(super) fn check(parts: &RequestParts<'_>) -> Result<(), RequestError> {
    let token = |text: &str| !text.is_empty() && text.bytes().all(field::is_token);
    if !token(parts.method) || parts.method == "CONNECT" {
        return Err(RequestError::Method(parts.method.into()));
    }
    if parts.authority.is_empty() || !parts.authority.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(RequestError::Authority(parts.authority.into()));
    }
    let path_ok = parts.path.starts_with('/') || (parts.path == "*" && parts.method == "OPTIONS");
    if !path_ok || !parts.path.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(RequestError::Path(parts.path.into()));
    }
    for (name, value) in parts.fields {
        if !token(name) {
            return Err(RequestError::FieldName(name.clone()));
        }
        if !field::is_field_value(value.as_bytes()) || value.trim_matches([' ', '\t']) != value {
            return Err(RequestError::FieldValue(name.clone()));
        }
        if name.eq_ignore_ascii_case("transfer-encoding")
            || name.eq_ignore_ascii_case("upgrade")
            || (name.eq_ignore_ascii_case("content-length")
                && field::parse_content_length(value.as_bytes()) != Some(parts.body.len() as u64))
        {
            return Err(RequestError::Forbidden(name.clone()));
        }
    }
    Ok(())
}
