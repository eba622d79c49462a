//! `Tls`: certificates, loaded once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use trilane_client::{Pin, Tls, TlsOptions};

use super::errors;

/// A file that has been read: its name, for messages, and its contents.
type File = (String, Vec<u8>);

#[pyclass(name = "Tls", module = "trilane._core", frozen, weakref)]
pub(crate) struct PyTls(pub(super) Tls);

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
        };
        loaded(py, options).map(Self)
    }
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
