//! The Python module `trilane._core`: thin, no protocol code in it.
//!
//! Documentation for Python lives in `python/trilane/_core.pyi`; `stubtest` keeps the two alike.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use psl::Psl;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use trilane_cli::Pages;

mod client;

/// The extension module. Nothing in it relies on the interpreter lock: classes are frozen, and what
/// changes is behind locks of its own.
#[pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::{
        check_goals, completions, for_terminal, is_public_suffix, is_secret, main,
        make_cluster_identity, network_rtt, without_secrets,
    };

    #[pymodule_export]
    use super::client::{
        connect::connect, connecting::PyConnecting, connection::PyConnection, decoder::PyDecoder,
        exchange::PyExchange, facts::PyFacts, sections::PySections, tls::PyTls,
    };

    #[pymodule_init]
    fn constants(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("version", env!("CARGO_PKG_VERSION"))?;
        module.add("revision", trilane_cli::REVISION)?;
        module.add("build_profile", trilane_cli::PROFILE)?;
        module.add("HIDDEN", trilane_text::HIDDEN)?;
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

/// Makes the certificate of a cluster, and its key, in a state folder that has none.
#[pyfunction]
fn make_cluster_identity(py: Python<'_>, folder: PathBuf) -> PyResult<()> {
    py.detach(|| trilane_cli::make_cluster_identity(&folder))
        .map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Whether anybody may register names below `name`.
#[pyfunction]
fn is_public_suffix(name: &str) -> bool {
    psl::List
        .suffix(name.as_bytes())
        .is_some_and(|suffix| suffix == name)
}

/// The round-trip time of a network, in seconds.
#[pyfunction]
fn network_rtt(network: &str) -> PyResult<f64> {
    let spec = trilane_cli::read_network(network).map_err(PyValueError::new_err)?;
    Ok(spec.rtt().as_secs_f64())
}

/// Whether the value of a field, a parameter, a member or a variable of this name is a secret.
#[pyfunction]
fn is_secret(name: &str) -> bool {
    trilane_text::is_secret(name)
}

/// A word of a command line, or what a shell is given, without the secrets in it.
#[pyfunction]
fn without_secrets(text: &str) -> String {
    trilane_text::command(text).into_owned()
}

/// Lines of text without what a terminal would obey, and without the secrets of URLs.
#[pyfunction]
fn for_terminal(text: &str) -> String {
    trilane_text::lines(&trilane_text::url(text))
}
