//! Whether a page of another site sends a request.

use http::{HeaderName, header::HOST, header::ORIGIN, request::Parts};

/// Fetch Metadata Request Headers section 2.4. A page of this very origin, or nobody's, may send.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a browser says of the page, if one sends it: other clients say nothing.
///
/// A scheme that differs alone is no other site: TLS may end before this server.
pub(crate) fn is_foreign(head: &Parts) -> bool {
    let site = head.headers.get(SEC_FETCH_SITE);
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return true;
    }
    let host = || head.headers.get(HOST).map(|host| host.as_bytes());
    let own = head.uri.authority().map(|own| own.as_str().as_bytes());
    let own = own.or_else(host).unwrap_or_default();
    let is_own = |origin: &[u8]| {
        let separator = b"://";
        let at = origin
            .windows(separator.len())
            .position(|at| at == separator);
        at.is_some_and(|at| origin[at + separator.len()..].eq_ignore_ascii_case(own))
    };
    let mut origins = head.headers.get_all(ORIGIN).iter();
    !origins.all(|origin| is_own(origin.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_say_whose_page_sends() {
        for (fields, foreign) in [
            (&[][..], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("sec-fetch-site", "same-origin")], false),
            (&[("sec-fetch-site", "same-site")], true),
            (&[("sec-fetch-site", "cross-site")], true),
            (&[("origin", "http://A:1")], false),
            (&[("origin", "https://a:1")], false),
            (&[("origin", "http://a:2")], true),
            (&[("origin", "http://b")], true),
            (&[("origin", "null")], true),
            (&[("origin", "http://a:1"), ("origin", "http://b")], true),
            (
                &[("origin", "http://a:1"), ("sec-fetch-site", "cross-site")],
                true,
            ),
        ] {
            let mut request = http::Request::post("/").header(HOST, "a:1");
            for (name, value) in fields {
                request = request.header(*name, *value);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(is_foreign(&head), foreign, "{fields:?}");
        }
    }
}
