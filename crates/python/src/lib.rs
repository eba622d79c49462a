//! The Python module `trilane._core`: thin, no protocol code in it.
//!
//! Documentation for Python lives in `python/trilane/_core.pyi`; `stubtest` keeps the two alike.

use std::ffi::OsString;
use std::path::Path;

use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trilane_cli::Pages;

mod client;

/// The extension module. Nothing in it relies on the interpreter lock: classes are frozen, and what
/// changes is behind locks of its own.
#[pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::{check_goals, completions, main, network_rtt};

    #[pymodule_export]
    use super::client::{
        connect::connect, connecting::PyConnecting, connection::PyConnection, decoder::PyDecoder,
        exchange::PyExchange, facts::PyFacts, sections::PySections, tls::PyTls,
    };

    #[pymodule_init]
    fn constants(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("version", env!("CARGO_PKG_VERSION"))?;
        module.add("revision", env!("TRILANE_REVISION"))?;
        module.add("build_profile", super::BUILD_PROFILE)?;
        super::client::exchange::INTERESTS
            .iter()
            .try_for_each(|(name, value, _)| module.add(*name, value))
    }
}

/// Runs the native command and returns its exit code.
///
/// The interpreter lock is released for the whole run, and Ctrl-C belongs to the command: it
/// installs its own handler, so a run can print its partial report.
#[pyfunction]
#[pyo3(signature = (argv, pages=None))]
fn main(py: Python<'_>, argv: Vec<OsString>, pages: Option<Py<PyAny>>) -> u8 {
    let pages = pages.map(PythonPages);
    py.detach(|| {
        let pages = pages.as_ref().map(|pages| pages as &dyn Pages);
        trilane_cli::main_with(argv, pages)
    })
}

/// Pages that an object of Python's makes; what it raises is the error.
struct PythonPages(Py<PyAny>);

impl PythonPages {
    fn call(&self, method: &str, arguments: impl for<'py> PyCallArgs<'py>) -> Result<(), String> {
        Python::attach(|py| {
            self.0
                .call_method1(py, method, arguments)
                .map(drop)
                .map_err(|error| error.value(py).to_string())
        })
    }
}

impl Pages for PythonPages {
    fn check(&self, file: &Path) -> Result<(), String> {
        self.call("check", (file,))
    }

    fn write(&self, result: &str, file: &Path) -> Result<(), String> {
        self.call("write", (result, file))
    }
}

/// The script by which a shell completes the command, with `also` its commands in Python, as JSON.
#[pyfunction]
fn completions(shell: &str, also: &str) -> PyResult<String> {
    trilane_cli::completions_with(shell, also).map_err(PyValueError::new_err)
}

/// Raises `ValueError` for what no search can keep.
#[pyfunction]
fn check_goals(goals: Vec<String>) -> PyResult<()> {
    trilane_cli::check_goals(&goals).map_err(PyValueError::new_err)
}

/// The round-trip time of a network, in seconds.
#[pyfunction]
fn network_rtt(network: &str) -> PyResult<f64> {
    let spec = trilane_cli::read_network(network).map_err(PyValueError::new_err)?;
    Ok(spec.rtt().as_secs_f64())
}

const BUILD_PROFILE: &str = if cfg!(debug_assertions) {
    "debug"
} else {
    "release"
};
