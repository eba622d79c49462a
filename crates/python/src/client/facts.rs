//! `Facts`: both ends of a connection, and what making it took.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use trilane_client::{Facts, TlsInfo};

/// It outlives the connection, and keeps nothing of it open.
#[pyclass(name = "Facts", module = "trilane._core", frozen)]
pub(crate) struct PyFacts(pub(super) Arc<Facts>);

#[pymethods]
impl PyFacts {
    #[getter]
    pub(super) fn peer(&self) -> Option<(String, u16)> {
        self.0.peer.map(pair)
    }

    #[getter]
    pub(super) fn local(&self) -> Option<(String, u16)> {
        self.0.local.map(pair)
    }

    #[getter]
    pub(super) fn tls_info<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.0.tls.as_ref().map(|info| dict(py, info)).transpose()
    }

    /// `dns`, `connect`, `tunnel`, `tls` and `quic`, in seconds.
    #[getter]
    fn setup(&self) -> [Option<f64>; 5] {
        let setup = &self.0.setup;
        [
            setup.dns,
            setup.connect,
            setup.tunnel,
            setup.tls,
            setup.quic,
        ]
        .map(|step| step.as_ref().map(Duration::as_secs_f64))
    }
}

fn dict<'py>(py: Python<'py>, info: &TlsInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("version", &info.version)?;
    dict.set_item("cipher", &info.cipher)?;
    dict.set_item("group", &info.group)?;
    dict.set_item("alpn", &info.alpn)?;
    dict.set_item("resumed", info.resumed)?;
    dict.set_item("ech", info.ech)?;
    let certificates = info.certificates.iter().map(|der| PyBytes::new(py, der));
    dict.set_item("certificates", PyList::new(py, certificates)?)?;
    Ok(dict)
}

fn pair(address: SocketAddr) -> (String, u16) {
    (address.ip().to_string(), address.port())
}
