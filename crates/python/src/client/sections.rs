//! `Sections`: what a response tells beside its status and its content.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use trilane_client::Sections;

use super::fields;

/// It outlives the exchange, and keeps nothing of the connection.
#[pyclass(name = "Sections", module = "trilane._core", frozen)]
pub(crate) struct PySections(pub(super) Sections);

#[pymethods]
impl PySections {
    fn has(&self, name: &str) -> bool {
        self.0.has_field(name.as_bytes())
    }

    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        fields::pairs(py, &self.0.fields)
    }

    #[getter]
    fn reason<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        fields::text(py, &self.0.reason)
    }

    #[getter]
    fn informational<'py>(&self, py: Python<'py>) -> PyResult<Vec<(u16, Bound<'py, PyList>)>> {
        fields::heads(py, &self.0.informational)
    }

    fn trailers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match &self.0.trailers {
            Some(section) => fields::pairs(py, section),
            None => Ok(PyList::empty(py)),
        }
    }
}
