//! `Connection`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use trilane_client::{Connection, Flush, Submission};
use trilane_wire::Content;

use super::buffer::Readable;
use super::connect::{is_secure, version_of};
use super::errors;
use super::exchange::PyExchange;
use super::facts::PyFacts;
use super::fields;
use super::fields::Given;
use super::released::Released;
use super::waiting::quick;

/// A body that is copied in less time than releasing the interpreter lock takes, in bytes.
const SMALL_BODY: usize = 4096;

#[pyclass(name = "Connection", module = "trilane._core", frozen, weakref)]
pub(crate) struct PyConnection(Released<Connection>);

impl PyConnection {
    pub(super) fn new(connection: Connection) -> Self {
        Self(Released::new(connection))
    }
}

#[pymethods]
impl PyConnection {
    #[staticmethod]
    #[pyo3(signature = (version = "h1", *, authority = "localhost", scheme = "http"))]
    fn memory(py: Python<'_>, version: &str, authority: &str, scheme: &str) -> PyResult<Self> {
        is_secure(py, scheme)?;
        let version = version_of(py, version)?;
        Connection::memory(version, scheme, authority)
            .map(Self::new)
            .map_err(|error| errors::raised(py, &error))
    }

    #[getter]
    fn version(&self) -> &'static str {
        self.0.version().name()
    }

    #[getter]
    fn facts(&self) -> PyFacts {
        PyFacts(Arc::clone(self.0.facts()))
    }

    #[getter]
    fn peer(&self) -> Option<(String, u16)> {
        self.facts().peer()
    }

    #[getter]
    fn local(&self) -> Option<(String, u16)> {
        self.facts().local()
    }

    #[getter]
    fn tls_info<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.facts().tls_info(py)
    }

    #[getter]
    fn proxy_fields<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let fields = self.0.proxy_fields();
        fields.map(|fields| fields::pairs(py, fields)).transpose()
    }

    #[getter]
    fn capacity(&self, py: Python<'_>) -> usize {
        quick(py, &self.0, || self.0.capacity())
    }

    #[getter]
    fn is_silent(&self, py: Python<'_>) -> bool {
        quick(py, &self.0, || self.0.is_silent())
    }

    #[getter]
    fn outstanding(&self, py: Python<'_>) -> usize {
        quick(py, &self.0, || self.0.outstanding())
    }

    #[getter]
    fn is_closing(&self, py: Python<'_>) -> bool {
        quick(py, &self.0, || self.0.is_closing())
    }

    #[getter]
    fn wants_write(&self, py: Python<'_>) -> bool {
        quick(py, &self.0, || self.0.wants_write())
    }

    #[getter]
    fn timeout(&self, py: Python<'_>) -> Option<f64> {
        quick(py, &self.0, || self.0.timeout()).map(|left| left.as_secs_f64())
    }

    #[pyo3(signature = (
        method, target, fields, body = None, *, authority = None, streaming = false, length = None,
        raw = false, flush = None, timed = false, protocol = None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn submit(
        &self,
        py: Python<'_>,
        method: &str,
        target: &str,
        fields: &Bound<'_, PyAny>,
        body: Option<&Bound<'_, PyAny>>,
        authority: Option<&str>,
        streaming: bool,
        length: Option<u64>,
        raw: bool,
        flush: Option<bool>,
        timed: bool,
        protocol: Option<&str>,
    ) -> PyResult<PyExchange> {
        let given = Given::new(fields)?;
        let body = body.map(Readable::new).transpose()?;
        if !streaming && (raw || length.is_some()) {
            let message =
                "length and raw are about content that follows by write(): say streaming=True too";
            return Err(errors::mistake(py, message));
        }
        if streaming && body.is_some() {
            let message = "a request has either a body or, with streaming=True, content that follows by write()";
            return Err(errors::mistake(py, message));
        }
        if protocol.is_some() && (streaming || body.is_some()) {
            let message = "with protocol= what is written follows by write(), once the server has switched: leave body and streaming out";
            return Err(errors::mistake(py, message));
        }
        let fields = given.borrowed();
        let body = body.as_ref().map(Readable::as_bytes).unwrap_or_default();
        let flush = match flush {
            None => Flush::Soon,
            Some(true) => Flush::Now,
            Some(false) => Flush::Later,
        };
        let send = || {
            let content = if let Some(protocol) = protocol {
                Content::Switched(protocol.to_owned())
            } else if streaming {
                Content::Streamed { length, raw }
            } else {
                Content::Whole(body.into())
            };
            self.0.submit(Submission {
                method,
                target,
                authority,
                fields: &fields,
                content,
                flush,
                timed,
            })
        };
        // Without a system call and a large copy, this takes a microsecond.
        let submitted = if flush == Flush::Later && body.len() < SMALL_BODY {
            quick(py, &self.0, send)
        } else {
            py.detach(send)
        };
        submitted
            .map(PyExchange::new)
            .map_err(|error| errors::raised(py, &error))
    }

    fn is_alive(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.is_alive())
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }

    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in py.detach(|| self.0.settings()) {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.0.fileno().ok_or_else(|| {
            let message = "a connection that was closed has no socket, nor has one in memory";
            errors::mistake(py, message)
        })
    }

    fn drive(&self, py: Python<'_>) -> Vec<u32> {
        py.detach(|| {
            let mut ready = Vec::new();
            self.0.drive(&mut ready);
            ready
        })
    }

    fn flush(&self, py: Python<'_>) {
        py.detach(|| self.0.flush());
    }

    fn receive(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = Readable::new(data)?;
        let bytes = data.as_bytes();
        py.detach(|| self.0.receive(bytes))
            .map_err(|error| errors::raised(py, &error))
    }

    fn eof(&self, py: Python<'_>) {
        py.detach(|| self.0.eof());
    }

    fn output<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.output()))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let place = match self.0.facts().peer {
            Some(peer) => format!(" to {peer}"),
            None => String::new(),
        };
        let outstanding = self.outstanding(py);
        format!(
            "<trilane._core.Connection {}{place}, {outstanding} outstanding>",
            self.version()
        )
    }
}
