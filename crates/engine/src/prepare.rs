//! The requests of a plan, encoded once.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use trilane_wire::request::REPEATED;
use trilane_wire::{Request, RequestParts};
use url::{Position, Url};

use crate::changing::{Body, Changing};
use crate::grpc::{CallsPlan, MessageTemplate, Scratch};
use crate::listed::Listed;
use crate::options::Options;
use crate::plan::{PlanError, usage};
use crate::template::{Template, Templates};
use crate::websocket::SocketPlan;

/// The requests of a plan.
pub(crate) struct Prepared {
    /// The method of each.
    pub(crate) methods: Vec<String>,
    /// Each as it is sent, or as it is sent first.
    pub(crate) requests: Vec<Request>,
    /// What changes in each; empty where nothing does in any.
    pub(crate) changing: Vec<Option<Changing>>,
    /// In a scenario each with the cookies of a virtual user, unless it has its own.
    pub(crate) with_cookies: Vec<Option<Changing>>,
}

/// The user's fields, those of the request itself before those of all, and `defaults` where there is
/// none of the name.
fn fields(
    options: &Options,
    own: &[(String, String)],
    defaults: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<(String, String)>, PlanError> {
    let mut fields = own.to_vec();
    let is_own = |name: &str| own.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    for text in &options.fields {
        let Some((name, value)) = text.split_once(':') else {
            return usage(format!("{text:?} is not a header: type -H 'Name: value'"));
        };
        if !is_own(name.trim_end()) {
            fields.push((name.trim_end().to_owned(), value.trim().to_owned()));
        }
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

/// The requests of a list, each with its URL and the template of that.
pub(crate) fn requests(
    options: &Options,
    listed: &[Listed],
    targets: Vec<(Url, Option<Template>)>,
    templates: &mut Templates,
) -> Result<Prepared, PlanError> {
    let run_body: Arc<[u8]> = options.body.as_slice().into();
    let repeated = listed.len() <= REPEATED;
    let mut prepared = Prepared {
        methods: Vec::with_capacity(listed.len()),
        requests: Vec::with_capacity(listed.len()),
        changing: Vec::with_capacity(listed.len()),
        with_cookies: Vec::new(),
    };
    let keeps_cookies = options
        .scenario
        .as_ref()
        .is_some_and(|scenario| scenario.cookies);
    for (each, (url, path)) in listed.iter().zip(targets) {
        let body = match &each.body {
            Some(own) => own.as_slice().into(),
            None => Arc::clone(&run_body),
        };
        let default_method = if body.is_empty() { "GET" } else { "POST" };
        let method = [&each.method, &options.method];
        let method = method.into_iter().find_map(Option::as_deref);
        let method = method.unwrap_or(default_method);
        let fields = fields(
            options,
            &each.fields,
            [("Accept".to_owned(), "*/*".to_owned())],
        )?;
        let parts = RequestParts {
            method,
            scheme: url.scheme(),
            authority: &authority(&url),
            path: &url[Position::BeforePath..Position::AfterQuery],
            fields: &fields,
            body,
            repeated,
        };
        let cookies = keeps_cookies
            && !fields
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        let WithTemplates {
            request,
            changing,
            with_cookies,
        } = with_templates(&parts, path, Content::Text, templates, cookies)
            .map_err(|error| each.place(error))?;
        if options.check_body && changing.is_some() {
            return Err(each.place(PlanError::Usage(
                "--check-body compares each response with the first of its request, and this request is another one each time: leave --check-body out".into(),
            )));
        }
        prepared.methods.push(method.to_owned());
        prepared.requests.push(request);
        prepared.changing.push(changing);
        prepared.with_cookies.push(with_cookies);
    }
    if prepared.changing.iter().all(Option::is_none) {
        prepared.changing.clear();
    }
    Request::share_fields(&mut prepared.requests);
    Ok(prepared)
}

/// A request, and what changes in it.
struct WithTemplates {
    request: Request,
    changing: Option<Changing>,
    with_cookies: Option<Changing>,
}

/// The content of a request, as far as it may change.
enum Content {
    /// Text, in which templates may stand.
    Text,
    /// This, and no other.
    Fixed,
    /// Messages, which follow one by one.
    Streamed,
    /// A message that changes.
    Message(MessageTemplate),
}

/// The request of `parts`, and what changes in it by the templates in its fields and its content, and by
/// that of its path; and the same with the `cookies` of a virtual user.
fn with_templates(
    parts: &RequestParts<'_>,
    path: Option<Template>,
    content: Content,
    templates: &mut Templates,
    cookies: bool,
) -> Result<WithTemplates, PlanError> {
    let wrong = |error: trilane_wire::RequestError| PlanError::Usage(error.to_string());
    let (mut staying, mut varying) = (Vec::new(), Vec::new());
    let mut first = Vec::with_capacity(parts.fields.len());
    for (name, value) in parts.fields {
        match templates.parse(value)? {
            Some(template) => {
                first.push((name.clone(), template.first()));
                varying.push((name.clone(), template));
            }
            None => {
                first.push((name.clone(), value.clone()));
                staying.push((name.clone(), value.clone()));
            }
        }
    }
    let is_streamed = matches!(content, Content::Streamed);
    let body = match content {
        Content::Text => templates.parse_body(&parts.body)?.map(Body::Text),
        Content::Fixed | Content::Streamed => None,
        Content::Message(template) => Some(Body::Message(template, Scratch::default())),
    };
    let whole = RequestParts {
        fields: &first,
        body: match &body {
            Some(Body::Text(template)) => template.first().into_bytes().into(),
            Some(Body::Message(..)) | None => Arc::clone(&parts.body),
        },
        ..parts.clone()
    };
    let request = if is_streamed {
        Request::streamed(&whole)
    } else {
        Request::new(&whole)
    };
    let request = request.map_err(wrong)?;
    let changes = path.is_some() || !varying.is_empty() || body.is_some();
    let path = path.unwrap_or_else(|| Template::fixed(parts.path));
    let parts = RequestParts {
        fields: &staying,
        ..whole
    };
    let with_cookies = cookies.then(|| {
        let mut varying = varying.clone();
        varying.push(("Cookie".to_owned(), Template::cookies()));
        Changing::new(&parts, path.clone(), varying, body.clone(), is_streamed)
    });
    let changing = changes.then(|| Changing::new(&parts, path, varying, body, is_streamed));
    Ok(WithTemplates {
        request,
        changing: changing.transpose()?,
        with_cookies: with_cookies.transpose()?,
    })
}

/// The opening handshakes of WebSocket sessions.
pub(crate) fn handshakes(
    options: &Options,
    socket: &SocketPlan,
    targets: &[(Url, Option<Template>)],
) -> Result<Prepared, PlanError> {
    if Templates::default().parse_body(&options.body)?.is_some() {
        return usage(
            "-b: the message of a WebSocket is the same each time: leave {seq}, {rand:…}, {uuid} and {csv:…} out",
        );
    }
    // Over HTTP/1.1 it stands beside the key.
    let version = ("Sec-WebSocket-Version".to_owned(), "13".to_owned());
    let fields = fields(options, &[], socket.is_multiplexed().then_some(version))?;
    let prepared = targets.iter().map(|(url, template)| {
        if template.is_some() {
            return usage(format!(
                "{url}: the URL of a WebSocket is the same each time: leave {{…}} out"
            ));
        }
        let parts = RequestParts {
            method: "GET",
            scheme: url.scheme(),
            authority: &authority(url),
            path: &url[Position::BeforePath..Position::AfterQuery],
            fields: &fields,
            body: Arc::default(),
            repeated: targets.len() <= REPEATED,
        };
        let request = if socket.is_multiplexed() {
            Request::extended_connect(&parts, "websocket")
        } else {
            Request::websocket(&parts)
        };
        request.map_err(|error| PlanError::Usage(error.to_string()))
    });
    let mut prepared = prepared.collect::<Result<Vec<_>, _>>()?;
    Request::share_fields(&mut prepared);
    let method = if socket.is_multiplexed() {
        "CONNECT"
    } else {
        "GET"
    };
    Ok(Prepared {
        methods: vec![method.to_owned(); prepared.len()],
        requests: prepared,
        changing: Vec::new(),
        with_cookies: Vec::new(),
    })
}

/// The calls' heads, with the content where it is not written message by message.
pub(crate) fn calls(
    options: &Options,
    calls: &CallsPlan,
    listed: &[Listed],
    targets: &[(Url, Option<Template>)],
    templates: &mut Templates,
) -> Result<Prepared, PlanError> {
    check_metadata(options)?;
    let mut prepared = Prepared {
        methods: vec!["POST".to_owned(); targets.len()],
        requests: Vec::with_capacity(targets.len()),
        changing: Vec::with_capacity(targets.len()),
        with_cookies: Vec::new(),
    };
    for ((each, call), (url, template)) in listed.iter().zip(calls.all()).zip(targets) {
        let place = |error| each.place(error);
        for (name, value) in &each.fields {
            check_field(name, value).map_err(place)?;
        }
        let fields = fields(options, &each.fields, call.fields(&calls.asked)).map_err(place)?;
        if template.is_some() {
            return usage(format!(
                "{url}: the path of a gRPC call is its method's: leave {{…}} out"
            ))
            .map_err(place);
        }
        if let Some(query) = url.query() {
            return usage(format!(
                "{url}: a gRPC call has no query: leave ?{query} out"
            ))
            .map_err(place);
        }
        let path = format!("{}{}", url.path().trim_end_matches('/'), call.method.path());
        let parts = RequestParts {
            method: "POST",
            scheme: url.scheme(),
            authority: &authority(url),
            path: &path,
            fields: &fields,
            body: if call.is_streamed() {
                Arc::default()
            } else {
                call.content().into()
            },
            repeated: targets.len() <= REPEATED,
        };
        let content = match call.changing() {
            Some(template) => Content::Message(template.clone()),
            None if call.is_streamed() => Content::Streamed,
            None => Content::Fixed,
        };
        let WithTemplates {
            request, changing, ..
        } = with_templates(&parts, None, content, templates, false).map_err(place)?;
        prepared.requests.push(request);
        prepared.changing.push(changing);
    }
    if prepared.changing.iter().all(Option::is_none) {
        prepared.changing.clear();
    }
    Request::share_fields(&mut prepared.requests);
    Ok(prepared)
}

/// Refuses fields that a gRPC call has by itself, and binary metadata that is not base64.
pub fn check_metadata(options: &Options) -> Result<(), PlanError> {
    options.fields.iter().try_for_each(|text| {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        check_field(name, value)
    })
}

fn check_field(name: &str, value: &str) -> Result<(), PlanError> {
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
    use crate::plan::Plan;

    fn prepared(count: usize) -> Vec<Request> {
        let urls = (0..count).map(|number| format!("http://a.example/{number}"));
        let options = Options {
            urls: urls.collect(),
            ..Options::default()
        };
        Plan::new(&options).unwrap().prepared
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
