//! `Tls`: certificates, loaded once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use trilane_client::{Pin, Tls, TlsOptions};

use super::errors;

/// A file that has been read: its name, for messages, and its contents.
type File = (String, Vec<u8>);

#[pyclass(name = "Tls", module = "trilane._core", frozen, weakref)]
pub(crate) struct PyTls(pub(super) Tls, String);

/// Names of files in a `repr`; a folder may have hundreds.
const NAMED: usize = 3;

#[pymethods]
impl PyTls {
    #[new]
    #[pyo3(
        signature = (
            *, authorities = Vec::new(), platform = true, insecure = false, certificate = None,
            key = None, password = None, pins = Vec::new(), tls13_only = false,
        ),
        text_signature = "(*, authorities=(), platform=True, insecure=False, certificate=None, key=None, password=None, pins=(), tls13_only=False)"
    )]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn new(
        py: Python<'_>,
        authorities: Vec<File>,
        platform: bool,
        insecure: bool,
        certificate: Option<File>,
        key: Option<File>,
        password: Option<Vec<u8>>,
        pins: Vec<(Option<String>, [u8; 32])>,
        tls13_only: bool,
    ) -> PyResult<Self> {
        let certificate = match (certificate, key) {
            (Some(chain), Some(key)) => Some((chain, key)),
            // One PEM file often has both.
            (Some(both), None) => Some((both.clone(), both)),
            (None, None) => None,
            (None, Some((name, _))) => {
                let message =
                    format!("the key {name:?} is for no certificate: give its certificate too");
                return Err(errors::mistake(py, message));
            }
        };
        let options = TlsOptions {
            authorities,
            platform,
            insecure,
            certificate,
            password,
            pins: pins
                .into_iter()
                .map(|(host, digest)| Pin { host, digest })
                .collect(),
            tls13_only,
            words: None,
        };
        let shown = described(&options);
        Ok(Self(loaded(py, options)?, shown))
    }

    fn __repr__(&self) -> String {
        format!("<trilane._core.Tls {}>", self.1)
    }
}

/// What the certificates are, for people.
fn described(options: &TlsOptions) -> String {
    let mut shown = if options.insecure {
        "trusts any server".to_owned()
    } else {
        let names = options.authorities.iter().map(|(name, _)| name.as_str());
        let platform = options.platform.then_some("the platform's authorities");
        let trusted: Vec<_> = platform.into_iter().chain(names).collect();
        let (first, others) = trusted.split_at(trusted.len().min(NAMED));
        let more = match others.len() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        match first {
            [] => "trusts nobody".to_owned(),
            _ => format!("trusts {}{more}", first.join(", ")),
        }
    };
    if let Some(((name, _), _)) = &options.certificate {
        shown.push_str("; shows ");
        shown.push_str(name);
    }
    match options.pins.len() {
        0 => {}
        1 => shown.push_str("; 1 pin"),
        count => shown.push_str(&format!("; {count} pins")),
    }
    if options.tls13_only {
        shown.push_str("; TLS 1.3 alone");
    }
    shown
}

/// What is used where nothing was asked for: the platform's authorities.
pub(super) fn platform(py: Python<'_>) -> PyResult<Tls> {
    static PLATFORM: PyOnceLock<Tls> = PyOnceLock::new();
    let options = || TlsOptions {
        platform: true,
        ..TlsOptions::default()
    };
    PLATFORM
        .get_or_try_init(py, || loaded(py, options()))
        .cloned()
}

/// Reads certificates; the platform's take milliseconds.
fn loaded(py: Python<'_>, options: TlsOptions) -> PyResult<Tls> {
    py.detach(|| Tls::new(options))
        .map_err(|error| errors::raised(py, &error))
}
