//! Which pages of other origins may read what is served: CORS, as the Fetch Standard has it.
//!
//! Requests are without credentials: cookies mean nothing here, and a page adds `authorization` itself. So
//! `*` stands for all fields of a response, among them metadata whose names nobody knows beforehand.

use http::{
    HeaderMap, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
        ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
    },
    request::Parts,
};

use super::Reply;
use crate::Error;

/// What a page may read of a response. `*` does not stand for `authorization`, which no response has; the
/// others are named for clients that do not know it.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("*, grpc-status, grpc-message, grpc-status-details-bin");
/// Two hours: more than that no browser heeds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// The origins whose pages may read answers.
pub(crate) struct Cors {
    any: bool,
    origins: Vec<HeaderValue>,
}

impl Cors {
    /// Each is `*`, or an origin as browsers send it, such as `https://app.example`. `None` for no origins.
    pub(crate) fn new(origins: &[String]) -> Result<Option<Self>, Error> {
        let wrong = |origin: &String| {
            Error::Config(format!(
                "{origin:?} is no origin: give scheme, host and, where it is not the scheme's own, port, \
                 such as https://app.example, or *"
            ))
        };
        let values = origins.iter().map(|origin| {
            let is_origin = origin == "*" || is_origin(origin);
            let value = HeaderValue::try_from(origin.as_str()).ok();
            value.filter(|_| is_origin).ok_or_else(|| wrong(origin))
        });
        let origins = values.collect::<Result<Vec<_>, _>>()?;
        Ok((!origins.is_empty()).then(|| Self {
            any: origins.iter().any(|origin| origin == "*"),
            origins,
        }))
    }

    /// Adds to the fields of any response what the page behind this request has to know.
    pub(super) fn allow(&self, head: &Parts, fields: &mut HeaderMap) {
        if self.any {
            fields.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        } else {
            // A cache must not give one origin's answer to another.
            fields.append(VARY, HeaderValue::from_static("origin"));
            match head.headers.get(ORIGIN) {
                Some(origin) if self.origins.contains(origin) => {
                    fields.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
                }
                _ => return,
            }
        }
        if head.headers.contains_key(ORIGIN) {
            fields.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }

    /// Whether pages of this origin may call.
    pub(super) fn allows(&self, origin: Option<&HeaderValue>) -> bool {
        self.any || origin.is_some_and(|origin| self.origins.contains(origin))
    }

    /// The answer to a question before the request ("CORS-preflight request"). `fields` are those of
    /// [`Cors::allow`]: without an origin in them, the answer is no.
    pub(super) fn preflight<B>(
        head: &Parts,
        mut fields: HeaderMap,
    ) -> Result<Response<Reply<B>>, HeaderMap> {
        let asked = head.headers.get(ACCESS_CONTROL_REQUEST_METHOD);
        let (Some(method), true) = (asked, head.headers.contains_key(ORIGIN)) else {
            return Err(fields);
        };
        if head.method != Method::OPTIONS {
            return Err(fields);
        }
        if fields.remove(ACCESS_CONTROL_EXPOSE_HEADERS).is_some() {
            fields.insert(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
            if let Some(names) = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
                fields.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
            }
            fields.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
        let asked = "access-control-request-method, access-control-request-headers";
        fields.append(VARY, HeaderValue::from_static(asked));
        let mut response = Response::new(Reply::Bytes(bytes::Bytes::new()));
        *response.status_mut() = StatusCode::NO_CONTENT;
        *response.headers_mut() = fields;
        Ok(response)
    }
}

/// RFC 6454 section 6.2, as far as a slip of the finger goes: a browser compares the whole text.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else {
        return false;
    };
    let is_lower = |part: &str| !part.bytes().any(|byte| byte.is_ascii_uppercase());
    !scheme.is_empty()
        && is_lower(text)
        && http::uri::Authority::try_from(host)
            .is_ok_and(|authority| authority.as_str() == host && !host.contains('@'))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(method: Method, pairs: &[(&'static str, &'static str)]) -> Parts {
        let mut request = Request::new(());
        *request.method_mut() = method;
        for (name, value) in pairs {
            request
                .headers_mut()
                .append(*name, HeaderValue::from_static(value));
        }
        request.into_parts().0
    }

    fn cors(origins: &[&str]) -> Cors {
        let origins: Vec<String> = origins.iter().map(|&text| text.to_owned()).collect();
        Cors::new(&origins).unwrap().unwrap()
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        for good in ["*", "https://app.example", "http://[::1]:8080", "app://x"] {
            assert!(Cors::new(&[good.to_owned()]).is_ok(), "{good}");
        }
        for bad in [
            "app.example",
            "https://app.example/",
            "https://App.example",
            "https://u@app.example",
            "://a",
            "",
        ] {
            let told = Cors::new(&[bad.to_owned()]).err().unwrap().to_string();
            assert!(told.contains("https://app.example"), "{bad}: {told}");
        }
        assert!(Cors::new(&[]).unwrap().is_none());
    }

    #[test]
    fn an_answer_names_an_origin_that_is_allowed() {
        let page = [("origin", "https://app.example")];
        let allowed = |origins: &[&str], pairs: &[_]| {
            let mut fields = HeaderMap::new();
            cors(origins).allow(&head(Method::GET, pairs), &mut fields);
            fields
        };
        let fields = allowed(&["https://x.example", "https://app.example"], &page);
        assert_eq!(fields[ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example");
        assert_eq!(fields[VARY], "origin");
        let fields = allowed(&["https://x.example"], &page);
        assert!(!fields.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
        assert!(!fields.contains_key(ACCESS_CONTROL_EXPOSE_HEADERS));
        // Whether it differs by the origin is told to all.
        assert_eq!(allowed(&["https://x.example"], &[])[VARY], "origin");
        let fields = allowed(&["*"], &page);
        assert_eq!(fields[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
        assert!(!fields.contains_key(VARY));
    }

    #[test]
    fn a_preflight_is_answered_for_the_method_and_the_fields_that_it_asks_for() {
        let ask = [
            ("origin", "https://app.example"),
            ("access-control-request-method", "PATCH"),
            ("access-control-request-headers", "authorization,x-user"),
        ];
        let answer = |origin: &str, method: Method, pairs: &[_]| {
            let head = head(method, pairs);
            let mut fields = HeaderMap::new();
            cors(&[origin]).allow(&head, &mut fields);
            Cors::preflight::<()>(&head, fields).map(|response| response.into_parts().0)
        };
        let good = answer("*", Method::OPTIONS, &ask).unwrap();
        assert_eq!(good.status, StatusCode::NO_CONTENT);
        assert_eq!(good.headers[ACCESS_CONTROL_ALLOW_METHODS], "PATCH");
        assert_eq!(
            good.headers[ACCESS_CONTROL_ALLOW_HEADERS],
            "authorization,x-user"
        );
        let refused = answer("https://x.example", Method::OPTIONS, &ask).unwrap();
        assert!(!refused.headers.contains_key(ACCESS_CONTROL_ALLOW_METHODS));
        // OPTIONS that does not ask for another origin, and what is no OPTIONS.
        assert!(answer("*", Method::OPTIONS, &ask[..1]).is_err());
        assert!(answer("*", Method::GET, &ask).is_err());
    }
}
