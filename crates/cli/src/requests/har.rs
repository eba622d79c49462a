//! HTTP Archives (HAR 1.2), as browsers and proxies export them: the requests of a visit, in order.
//!
//! <http://www.softwareishard.com/blog/har-12-spec/>

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use trilane_engine::Listed;
use url::Url;

use super::{Wrong, is_of_the_connection};

#[derive(Deserialize)]
pub(super) struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    #[serde(default)]
    text: String,
    /// `base64` where the text is not the content itself.
    encoding: Option<String>,
}

pub(super) fn parse(text: &str) -> Result<Archive, Wrong> {
    // A byte order mark is no JSON, and some exporters write one.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::from_str(text).map_err(|error| {
        let wrong = Wrong::json(1, &error);
        // What serde says of shapes has our types' names in it.
        let why = match error.classify() {
            serde_json::error::Category::Data if !wrong.text.contains("field") => {
                "expected an object {\"log\": {\"entries\": […]}}"
            }
            _ => &wrong.text,
        };
        let text = format!("this is not an HTTP Archive (HAR 1.2): {why}");
        Wrong { text, ..wrong }
    })
}

/// The requests to `hosts`, or all where none is named and one origin is all that there is, and notes about
/// what was left out. The error names the hosts.
pub(super) fn choose(
    archive: Archive,
    hosts: &[String],
) -> Result<(Vec<Listed>, Vec<String>), String> {
    let mut origins: BTreeMap<String, usize> = BTreeMap::new();
    let (mut listed, mut others) = (Vec::new(), 0);
    for (number, Entry { request }) in (1..).zip(archive.log.entries) {
        let url = Url::parse(&request.url).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        let Some(url) = url else {
            // `data:`, `blob:`, `ws:` and what extensions load.
            others += 1;
            continue;
        };
        let of = url.host_str().unwrap_or_default();
        let is_chosen = hosts.iter().any(|asked| is_meant(asked, of));
        if !hosts.is_empty() && !is_chosen {
            let count = origins.entry(of.to_owned()).or_default();
            *count += 1;
            continue;
        }
        if hosts.is_empty() {
            let origin = url.origin().ascii_serialization();
            *origins.entry(origin).or_default() += 1;
        }
        listed.push(take(number, request)?);
    }
    let named = || {
        let named = origins
            .iter()
            .map(|(name, count)| format!("{name} ({count})"));
        named.collect::<Vec<_>>().join(", ")
    };
    if hosts.is_empty() && origins.len() > 1 {
        let found: Vec<_> = origins
            .keys()
            .filter_map(|origin| Url::parse(origin).ok())
            .collect();
        let first = found.first().and_then(Url::host_str).unwrap_or_default();
        return Err(format!(
            "has requests to several origins: {}; a visit goes to servers of others, too: type --har-host {first}, once for each host that is to be loaded, or --har-host '*' for all",
            named()
        ));
    }
    if listed.is_empty() {
        return Err(if hosts.is_empty() || origins.is_empty() {
            "has no request by http or https".to_owned()
        } else {
            format!("has no request to {}, but to {}", hosts.join(", "), named())
        });
    }
    let mut notes = Vec::new();
    if !hosts.is_empty() && !origins.is_empty() {
        notes.push(format!("left out what goes to other hosts: {}", named()));
    }
    if others > 0 {
        notes.push(format!("left out {others} that are neither http nor https"));
    }
    Ok((listed, notes))
}

/// Whether `host` is the one that was asked for, or below it where that begins with `*.`; `*` is all.
fn is_meant(asked: &str, host: &str) -> bool {
    match asked.strip_prefix("*.") {
        Some(domain) => host
            .strip_suffix(domain)
            .is_some_and(|below| below.is_empty() || below.ends_with('.')),
        None => asked == "*" || host.eq_ignore_ascii_case(asked),
    }
}

fn take(number: usize, request: Request) -> Result<Listed, String> {
    let mut listed = Listed::new(format!("request {number} of the archive"), request.url);
    listed.method = Some(request.method);
    let fields = request.headers.into_iter();
    let fields = fields.filter(|field| !is_of_the_connection(&field.name));
    listed.fields = fields
        .map(|Field { name, value }| (name, value.trim().to_owned()))
        .collect();
    // An archive without content is a request without it, and not one with the run's.
    listed.body = Some(match request.post_data {
        None => Vec::new(),
        Some(PostData { text, encoding }) if encoding.as_deref() == Some("base64") => {
            STANDARD.decode(text).map_err(|error| {
                format!("has content in request {number} that is not base64: {error}")
            })?
        }
        Some(PostData { text, .. }) => text.into_bytes(),
    });
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(urls: &[&str]) -> Archive {
        let entries: Vec<_> = urls
            .iter()
            .map(|url| {
                serde_json::json!({"startedDateTime": "…", "request": {
                    "method": "POST", "url": url, "httpVersion": "h3",
                    "headers": [{"name": ":authority", "value": "a"}, {"name": "Content-Length", "value": "9"},
                                {"name": "accept", "value": " */* "}],
                    "postData": {"mimeType": "text/plain", "text": "AP8=", "encoding": "base64"}}})
            })
            .collect();
        let text = serde_json::json!({"log": {"version": "1.2", "entries": entries}});
        parse(&format!("\u{feff}{text}")).unwrap()
    }

    #[test]
    fn a_request_is_what_the_browser_sent_without_what_the_version_adds() {
        let (listed, notes) = choose(archive(&["https://a/x?y=1"]), &[]).unwrap();
        assert!(notes.is_empty());
        assert_eq!(listed[0].url, "https://a/x?y=1");
        assert_eq!(listed[0].fields, [("accept".to_owned(), "*/*".to_owned())]);
        assert_eq!(listed[0].body.as_deref(), Some(&b"\0\xff"[..]));
        assert_eq!(listed[0].method.as_deref(), Some("POST"));
    }

    #[test]
    fn hosts_are_chosen_and_what_is_left_out_is_told() {
        let hosts = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.into())
                .collect::<Vec<String>>()
        };
        let urls = [
            "https://a/",
            "https://cdn.a/x",
            "data:text/plain,x",
            "https://b/",
        ];
        let told = choose(archive(&urls), &[]).err().unwrap();
        assert!(
            told.contains("https://a (1), https://b (1), https://cdn.a (1)"),
            "{told}"
        );
        assert!(told.contains("type --har-host a, once"), "{told}");
        let (listed, notes) = choose(archive(&urls), &hosts(&["A"])).unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(
            notes,
            [
                "left out what goes to other hosts: b (1), cdn.a (1)",
                "left out 1 that are neither http nor https"
            ]
        );
        for (chosen, count) in [(&["*.a"][..], 2), (&["b", "cdn.a"][..], 2), (&["*"][..], 3)] {
            let (listed, _) = choose(archive(&urls), &hosts(chosen)).unwrap();
            assert_eq!(listed.len(), count, "{chosen:?}");
        }
        let told = choose(archive(&urls), &hosts(&["c"])).err().unwrap();
        assert!(
            told.starts_with("has no request to c, but to a (1)"),
            "{told}"
        );
        let told = choose(archive(&["data:,"]), &[]).err().unwrap();
        assert!(told.contains("no request by http"), "{told}");
    }

    #[test]
    fn what_is_no_archive_is_named_by_line_and_column() {
        let wrong = parse("{\"log\":\n {\"entries\": 1}}").err().unwrap();
        assert_eq!((wrong.line, wrong.column), (2, 14));
        assert_eq!(
            wrong.text,
            "this is not an HTTP Archive (HAR 1.2): expected an object {\"log\": {\"entries\": […]}}"
        );
        let lacking = parse("{\"log\": {}}").err().unwrap();
        assert!(
            lacking.text.ends_with("missing field `entries`"),
            "{}",
            lacking.text
        );
    }
}
