//! The requests of a plan, encoded once.

use std::sync::Arc;

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
            // Beyond this the paths would push each other out of a 4096-byte table.
            repeated: urls.len() <= 16,
        })
    });
    let prepared = prepared
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| PlanError::Usage(error.to_string()))?;
    Ok((method.to_owned(), prepared))
}

/// The calls' heads, with the content where it is not written message by message.
pub(crate) fn calls(
    options: &Options,
    call: &CallPlan,
    urls: &[Url],
) -> Result<Vec<Request>, PlanError> {
    if let Some(name) = options.fields.iter().find_map(|text| reserved(text)) {
        return usage(format!(
            "-H {name:?}: gRPC itself sends this field: leave it out"
        ));
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
            repeated: urls.len() <= 16,
        };
        let request = if call.is_streamed() {
            Request::streamed(&parts)
        } else {
            Request::new(&parts)
        };
        request.map_err(|error| PlanError::Usage(error.to_string()))
    });
    prepared.collect()
}

/// The name of a field that a call has by itself.
fn reserved(field: &str) -> Option<&str> {
    let name = field.split(':').next()?.trim();
    [
        "content-type",
        "te",
        "grpc-timeout",
        "grpc-encoding",
        "grpc-accept-encoding",
        "content-length",
    ]
    .iter()
    .any(|other| name.eq_ignore_ascii_case(other))
    .then_some(name)
}
