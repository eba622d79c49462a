//! Failures become exceptions of `trilane.client.errors`.

use pyo3::exceptions::{PyImportError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use trilane_client::{Error, Kind, Unprocessed};

/// The exception for a failure; or what was raised while it was made, such as `KeyboardInterrupt`:
/// Python handles a signal wherever its code runs, and a Ctrl-C must not get lost here.
pub(super) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    match exception(py, error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(cause) if cause.is_instance_of::<PyImportError>(py) => {
            let failure = PyRuntimeError::new_err(error.message.clone());
            failure.set_cause(py, Some(cause));
            failure
        }
        Err(other) => other,
    }
}

/// The exception for a mistake of the caller's.
pub(super) fn mistake(py: Python<'_>, message: impl Into<String>) -> PyErr {
    let error = Error {
        kind: Kind::Local,
        message: message.into(),
        stream_id: None,
        code: None,
        unprocessed: Unprocessed::Unknown,
    };
    raised(py, &error)
}

fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    // Imported late: `trilane.client` itself imports this module.
    static OF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    OF.import(py, "trilane.client.errors", "of")?.call1((
        error.kind.name(),
        &error.message,
        error.stream_id,
        error.code,
        error.unprocessed != Unprocessed::Unknown,
    ))
}
