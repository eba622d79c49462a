//! Requests that pages of other origins may send without leave.
//!
//! A browser asks first (CORS-preflight) where a request is not one that a form could send, and then hears from
//! [`Cors`] which origins may. A POST without a content type, or with one of a form's, goes without a question,
//! and so does a WebSocket: these are told here by what browsers say of the page, as `CrossOriginProtection` of
//! Go's `net/http` does it.

use http::{
    HeaderName, Method, StatusCode,
    header::{CONTENT_TYPE, HOST, ORIGIN},
    request::Parts,
};

use super::Cors;
use crate::rest::websocket;

/// Fetch Metadata Request Headers, section 2.4.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Fetch Standard, "CORS-safelisted request-header": what a form can send.
const OF_FORMS: [&str; 3] = [
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "text/plain",
];
const NEEDS_TYPE: &str = "a page of another origin has to send a content-type that needs a CORS preflight, such \
     as application/json; to allow all requests of an origin, start the server with --cors-origin ORIGIN";
const NO_SOCKET: &str = "WebSockets from pages of another origin are refused; to allow an origin, start the \
     server with --cors-origin ORIGIN";

/// Why a request is refused that a page of another origin sends without leave.
pub(super) fn refusal(head: &Parts, cors: Option<&Cors>) -> Option<(StatusCode, &'static str)> {
    let (status, text) = match head.method {
        Method::POST if needs_no_preflight(head) => {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, NEEDS_TYPE)
        }
        Method::GET | Method::CONNECT if websocket::is_asked(head) => {
            (StatusCode::FORBIDDEN, NO_SOCKET)
        }
        _ => return None,
    };
    let origin = head.headers.get(ORIGIN);
    let is_allowed = || cors.is_some_and(|cors| cors.allows(origin));
    (is_foreign(head) && !is_allowed()).then_some((status, text))
}

fn needs_no_preflight(head: &Parts) -> bool {
    let Some(kind) = head.headers.get(CONTENT_TYPE) else {
        return true;
    };
    let Ok(kind) = kind.to_str() else {
        return true;
    };
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.is_empty() || OF_FORMS.iter().any(|form| kind.eq_ignore_ascii_case(form))
}

/// Whether the browser says that a page of another origin sends this. What is no browser says nothing.
fn is_foreign(head: &Parts) -> bool {
    if let Some(site) = head.headers.get(SEC_FETCH_SITE) {
        // `none` is the user, by the address bar for one.
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = head.headers.get(ORIGIN) else {
        return false;
    };
    // The scheme may be another before a proxy that ends TLS; the host, with its port, is not.
    let origin = origin.to_str().ok().and_then(|text| text.split_once("://"));
    let named = head.uri.authority().map(|named| named.as_str().as_bytes());
    let host = named.or_else(|| Some(head.headers.get(HOST)?.as_bytes()));
    match (origin, host) {
        (Some((_, origin)), Some(host)) => !origin.as_bytes().eq_ignore_ascii_case(host),
        // `null`: a page without an origin.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Version};

    use super::*;

    const PAGE: (&str, &str) = ("origin", "https://app.example");

    fn refused(method: &str, fields: &[(&str, &str)], cors: &[&str]) -> Option<u16> {
        let request = Request::builder().method(method).uri("/a.B/C");
        let mut request = request
            .version(Version::HTTP_11)
            .header(HOST, "localhost:8080");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let origins: Vec<String> = cors.iter().map(|&text| text.to_owned()).collect();
        let cors = Cors::new(&origins).unwrap();
        let head = request.body(()).unwrap().into_parts().0;
        refusal(&head, cors.as_ref()).map(|(status, _)| status.as_u16())
    }

    #[test]
    fn content_that_a_form_can_send_is_not_taken_from_other_pages() {
        let site = |value| ("sec-fetch-site", value);
        for foreign in [
            &[PAGE][..],
            &[("origin", "null")],
            &[("origin", "http://localhost:3000"), site("same-site")],
            &[PAGE, site("cross-site")],
            &[site("cross-site")],
        ] {
            assert_eq!(refused("POST", foreign, &[]), Some(415), "{foreign:?}");
            for (kind, expected) in [
                ("text/plain", Some(415)),
                ("Text/Plain; charset=utf-8", Some(415)),
                ("application/x-www-form-urlencoded", Some(415)),
                ("multipart/form-data; boundary=x", Some(415)),
                ("", Some(415)),
                ("application/json", None),
                ("application/grpc-web+proto", None),
            ] {
                let fields = [foreign, &[("content-type", kind)]].concat();
                assert_eq!(refused("POST", &fields, &[]), expected, "{fields:?}");
            }
            for safe in ["GET", "HEAD", "OPTIONS"] {
                assert_eq!(refused(safe, foreign, &[]), None);
            }
        }
        for own in [
            &[][..],
            &[("origin", "http://localhost:8080")],
            &[("origin", "https://LOCALHOST:8080")],
            &[PAGE, site("same-origin")],
            &[site("none")],
        ] {
            assert_eq!(refused("POST", own, &[]), None, "{own:?}");
        }
        for cors in [&["*"][..], &["https://app.example"]] {
            assert_eq!(refused("POST", &[PAGE, site("cross-site")], cors), None);
        }
        let other = &["https://other.example"];
        assert_eq!(refused("POST", &[PAGE], other), Some(415));
    }

    #[test]
    fn websockets_are_not_opened_for_other_pages() {
        let asked = [("connection", "Upgrade"), ("upgrade", "websocket")];
        let of = |origin| [&asked[..], &[("origin", origin)]].concat();
        assert_eq!(refused("GET", &asked, &[]), None);
        assert_eq!(refused("GET", &of("http://localhost:8080"), &[]), None);
        assert_eq!(refused("GET", &of("https://app.example"), &[]), Some(403));
        assert_eq!(refused("GET", &of("null"), &[]), Some(403));
        let allowed = &["https://app.example"];
        assert_eq!(refused("GET", &of("https://app.example"), allowed), None);
        assert_eq!(refused("GET", &of("https://x.example"), allowed), Some(403));
    }
}
