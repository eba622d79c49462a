//! `Decoder`: content codings.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use trilane_client::{Decoder, Error};

use super::buffer::Readable;
use super::errors;

#[pyclass(name = "Decoder", module = "trilane._core", frozen)]
pub(crate) struct PyDecoder {
    decoder: Mutex<Decoder>,
    codings: Vec<String>,
    limit: Option<u64>,
}

#[pymethods]
impl PyDecoder {
    #[new]
    #[pyo3(signature = (codings, *, limit = None))]
    fn new(py: Python<'_>, codings: Vec<String>, limit: Option<u64>) -> PyResult<Self> {
        Decoder::new(&codings, limit)
            .map(|decoder| Self {
                decoder: Mutex::new(decoder),
                codings,
                limit,
            })
            .map_err(|error| errors::raised(py, &error))
    }

    #[pyo3(signature = (data, most = -1), text_signature = "($self, data, most=-1)")]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'_, PyAny>,
        most: i64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let data = Readable::new(data)?;
        let bytes = data.as_bytes();
        let most = usize::try_from(most).ok();
        self.bytes(py, |decoder| decoder.decode(bytes, most))
    }

    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.bytes(py, Decoder::finish)
    }

    fn __repr__(&self) -> String {
        let limit = match self.limit {
            Some(limit) => format!(", at most {limit} bytes"),
            None => String::new(),
        };
        let codings = match self.codings.as_slice() {
            [] => "identity".to_owned(),
            codings => codings.join(", "),
        };
        format!("<trilane._core.Decoder {codings}{limit}>")
    }
}

impl PyDecoder {
    fn bytes<'py>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&mut Decoder) -> Result<Vec<u8>, Error> + Send,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let decoded =
            py.detach(|| work(&mut self.decoder.lock().unwrap_or_else(PoisonError::into_inner)));
        decoded
            .map(|bytes| PyBytes::new(py, &bytes))
            .map_err(|error| errors::raised(py, &error))
    }
}
