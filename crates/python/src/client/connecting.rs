//! `Connecting`: a connection that is being made, for an event loop.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use trilane_client::Connecting;

use super::connection::PyConnection;
use super::errors;

#[pyclass(name = "Connecting", module = "trilane._core", frozen, weakref)]
pub(crate) struct PyConnecting {
    /// `None` once it was closed.
    connecting: Mutex<Option<Box<Connecting>>>,
}

impl PyConnecting {
    pub(super) fn new(connecting: Connecting) -> Self {
        Self {
            connecting: Mutex::new(Some(Box::new(connecting))),
        }
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Option<Box<Connecting>>) -> T + Send,
    ) -> T {
        py.detach(|| {
            work(
                &mut self
                    .connecting
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            )
        })
    }
}

#[pymethods]
impl PyConnecting {
    fn step(&self, py: Python<'_>) -> PyResult<Option<PyConnection>> {
        let stepped = self.with(py, |connecting| {
            connecting.as_mut().map(|connecting| connecting.step())
        });
        match stepped {
            Some(Ok(made)) => Ok(made.map(PyConnection::new)),
            Some(Err(error)) => Err(errors::raised(py, &error)),
            None => Err(errors::mistake(py, "it was closed before it had connected")),
        }
    }

    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.with(py, |connecting| {
            connecting.as_ref().map(|connecting| connecting.fileno())
        })
        .ok_or_else(|| errors::mistake(py, "it was closed, and has no descriptor"))
    }

    #[getter]
    fn timeout(&self, py: Python<'_>) -> Option<f64> {
        let left = self.with(py, |connecting| connecting.as_mut()?.timeout());
        left.map(|left| left.as_secs_f64())
    }

    fn close(&self, py: Python<'_>) {
        self.with(py, |connecting| drop(connecting.take()));
    }
}
