//! The requests of a plan, encoded once.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use trilane_wire::request::REPEATED;
use trilane_wire::{Request, RequestParts};
use url::Url;

use crate::grpc::CallPlan;
use crate::options::Options;
use crate::plan::{PlanError, usage};

/// The user's fields, and `defaults` where the user gave none of the name.
fn fields(
    options: &Options,
    defaults: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<(String, String)>, PlanError> {
    let mut fields = Vec::with_capacity(options.fields.len() + 2);
    for text in &options.fields {
        let Some((name, value)) = text.split_once(':') else {
            return usage(format!("{text:?} is not a header: type -H 'Name: value'"));
        };
        fields.push((name.trim_end().to_owned(), value.trim().to_owned()));
    }
    let agent = concat!("trilane/", env!("CARGO_PKG_VERSION"));
    let agent = ("User-Agent".to_owned(), agent.to_owned());
    for (name, value) in std::iter::once(agent).chain(defaults) {
        if !fields.iter().any(|(n, _)| n.eq_ignore_ascii_case(&name)) {
            fields.push((name, value));
        }
    }
    Ok(fields)
}

/// Host and, unless it is the scheme's default, port.
fn authority(url: &Url) -> String {
    match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    }
}

/// The requests for `urls`, and their method.
pub(crate) fn requests(
    options: &Options,
    urls: &[Url],
) -> Result<(String, Vec<Request>), PlanError> {
    let fields = fields(options, [("Accept".to_owned(), "*/*".to_owned())])?;
    let body: Arc<[u8]> = options.body.as_slice().into();
    let default_method = if body.is_empty() { "GET" } else { "POST" };
    let method = options.method.as_deref().unwrap_or(default_method);
    let prepared = urls.iter().map(|url| {
        Request::new(&RequestParts {
            method,
            scheme: url.scheme(),
            authority: &authority(url),
            path: &url[url::Position::BeforePath..url::Position::AfterQuery],
            fields: &fields,
            body: Arc::clone(&body),
            repeated: urls.len() <= REPEATED,
        })
    });
    let mut prepared = prepared
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| PlanError::Usage(error.to_string()))?;
    Request::share_fields(&mut prepared);
    Ok((method.to_owned(), prepared))
}

/// The calls' heads, with the content where it is not written message by message.
pub(crate) fn calls(
    options: &Options,
    call: &CallPlan,
    urls: &[Url],
) -> Result<Vec<Request>, PlanError> {
    for text in &options.fields {
        check_metadata(text)?;
    }
    let fields = fields(options, call.fields())?;
    let body: Arc<[u8]> = if call.is_streamed() {
        Arc::default()
    } else {
        call.content().into()
    };
    let prepared = urls.iter().map(|url| {
        if let Some(query) = url.query() {
            return usage(format!(
                "{url}: a gRPC call has no query: leave ?{query} out"
            ));
        }
        let path = format!(
            "{}{}",
            url.path().trim_end_matches('/'),
            call.call.method.path()
        );
        let parts = RequestParts {
            method: "POST",
            scheme: url.scheme(),
            authority: &authority(url),
            path: &path,
            fields: &fields,
            body: Arc::clone(&body),
            repeated: urls.len() <= REPEATED,
        };
        let request = if call.is_streamed() {
            Request::streamed(&parts)
        } else {
            Request::new(&parts)
        };
        request.map_err(|error| PlanError::Usage(error.to_string()))
    });
    let mut prepared = prepared.collect::<Result<Vec<_>, _>>()?;
    Request::share_fields(&mut prepared);
    Ok(prepared)
}

/// Refuses fields that a call has by itself, and binary metadata that is not base64.
fn check_metadata(text: &str) -> Result<(), PlanError> {
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
    let way = match name.as_str() {
        "content-type" | "te" | "content-length" => "leave it out",
        "grpc-timeout" => "type --deadline 1s",
        "grpc-encoding" | "grpc-accept-encoding" => "type --gzip",
        _ => "",
    };
    if !way.is_empty() {
        return usage(format!("-H {name:?}: gRPC itself sends this field: {way}"));
    }
    // Padding is optional (gRPC over HTTP/2, "Binary-Header").
    let is_base64 = STANDARD_NO_PAD.decode(value.trim_end_matches('=')).is_ok();
    if name.ends_with("-bin") && !is_base64 {
        return usage(format!(
            "-H {name:?}: metadata whose name ends in -bin is base64, and {value:?} is not: encode it"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(count: usize) -> Vec<Request> {
        let urls: Vec<_> = (0..count)
            .map(|number| Url::parse(&format!("http://a.example/{number}")).unwrap())
            .collect();
        requests(&Options::default(), &urls).unwrap().1
    }

    #[test]
    fn what_many_requests_share_is_encoded_once() {
        let many = prepared(1000);
        let first = many[0].template();
        assert!(many.iter().all(|request| request.template() == first));
    }

    #[test]
    fn a_few_requests_are_kept_each_with_its_path() {
        let few = prepared(REPEATED);
        assert!(few.iter().all(|request| request.template() == request.id()));
    }
}
