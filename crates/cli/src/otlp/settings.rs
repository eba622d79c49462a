//! What is asked of exports: by the flag, and by the environment as OpenTelemetry names it.

use std::env;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

/// Of the specification's "Environment Variable Specification" and "OpenTelemetry Protocol Exporter": the
/// variable for metrics goes before the one for all signals.
const HEADERS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_HEADERS",
];
const CERTIFICATE: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
];
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SERVICE: &str = "OTEL_SERVICE_NAME";

/// What the environment says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Fields of each request.
    pub(super) headers: Vec<(String, String)>,
    /// What the metrics are of: names and values.
    pub(super) resource: Vec<(String, String)>,
    /// A file of authorities to trust, beside the system's.
    pub(super) certificate: Option<PathBuf>,
}

/// Parses the address of a collector; without a path it is that of OTLP's metrics.
pub(crate) fn endpoint(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| {
            format!(
                "{text:?} is not the URL of a collector: write for example http://127.0.0.1:4318, whose \
                 path is then /v1/metrics"
            )
        })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "a URL of a collector has no name and no password: set {}, such as authorization=Basic%20…",
            HEADERS[1]
        ));
    }
    if url.path() == "/" {
        url.set_path("/v1/metrics");
    }
    Ok(url)
}

impl Settings {
    pub(super) fn from_environment(target: &str) -> Result<Self, String> {
        Self::new(target, |name| env::var(name).ok())
    }

    fn new(target: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let pairs_of = |name: &str| match variable(name) {
            Some(text) => pairs(name, &text),
            None => Ok(Vec::new()),
        };
        let headers = HEADERS.into_iter().find(|name| variable(name).is_some());
        let mut resource = pairs_of(RESOURCE)?;
        let service = variable(SERVICE).map(|name| ("service.name".to_owned(), name));
        if service.is_some() {
            resource.retain(|(name, _)| name != "service.name");
        }
        resource.extend(service);
        for (name, value) in [
            ("service.name", "trilane"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("trilane.url", target),
        ] {
            if !resource.iter().any(|(given, _)| given == name) {
                resource.push((name.to_owned(), value.to_owned()));
            }
        }
        Ok(Self {
            headers: headers.map_or_else(|| Ok(Vec::new()), pairs_of)?,
            resource,
            certificate: CERTIFICATE
                .into_iter()
                .find_map(variable)
                .map(PathBuf::from),
        })
    }
}

/// Parses `name=value,name=value`, in which values are percent-encoded.
fn pairs(variable: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let wrong = |part: &str| {
        format!(
            "--otlp: {variable} has {part:?}, which is not name=value: write for example api-key=secret,team=web"
        )
    };
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
            let value = percent_decode_str(value.trim())
                .decode_utf8()
                .map_err(|_| wrong(part))?;
            let name = name.trim();
            if name.is_empty() || value.chars().any(char::is_control) {
                return Err(wrong(part));
            }
            Ok((name.to_owned(), value.into_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::new("http://a/", |name| {
            let found = variables.iter().find(|(given, _)| *given == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_collector_has_the_path_of_metrics_unless_said_otherwise() {
        for (text, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
            ("https://otel.example/", "https://otel.example/v1/metrics"),
            ("http://a/api/v1/otlp", "http://a/api/v1/otlp"),
        ] {
            assert_eq!(endpoint(text).unwrap().as_str(), url);
        }
        for wrong in ["127.0.0.1:4318", "grpc://a:4317", "http://", ""] {
            assert!(
                endpoint(wrong)
                    .unwrap_err()
                    .contains("http://127.0.0.1:4318")
            );
        }
        assert!(
            endpoint("http://me:secret@a/")
                .unwrap_err()
                .contains("HEADERS")
        );
    }

    #[test]
    fn what_is_said_for_metrics_goes_before_what_is_said_for_all() {
        let found = settings(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
            (
                "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
                " b = two%20words , c=3,",
            ),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem"),
        ])
        .unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found.headers, [pair("b", "two words"), pair("c", "3")]);
        assert_eq!(found.certificate, Some("ca.pem".into()));
        assert_eq!(found.resource[0], pair("service.name", "trilane"));
        assert_eq!(settings(&[]).unwrap().headers, []);
    }

    #[test]
    fn the_resource_is_named_by_the_environment() {
        let found = settings(&[
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=web"),
            ("OTEL_SERVICE_NAME", "nightly"),
        ]);
        let found = found.unwrap().resource;
        let of = |name: &str| {
            let mut found = found.iter().filter(|(given, _)| given == name);
            let value = found.next().map(|(_, value)| value.as_str());
            assert!(found.next().is_none(), "{name} is there once");
            value
        };
        assert_eq!(of("service.name"), Some("nightly"));
        assert_eq!(of("team"), Some("web"));
        assert_eq!(of("trilane.url"), Some("http://a/"));
    }

    #[test]
    fn what_is_no_pair_is_named() {
        for text in ["secret", "=1", "a=%ff", "a=b%0d%0ac"] {
            let error = settings(&[("OTEL_EXPORTER_OTLP_HEADERS", text)]).unwrap_err();
            assert!(
                error.contains("OTEL_EXPORTER_OTLP_HEADERS") && error.contains(text),
                "{error}"
            );
        }
    }
}
