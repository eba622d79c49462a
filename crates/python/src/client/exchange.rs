//! `Exchange`: one request and its response.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use trilane_client::{Error, Exchange, FieldList, Interest, Patience};

use super::buffer::{Readable, Writable};
use super::errors;
use super::fields::{self, Given};
use super::released::Released;
use super::sections::PySections;
use super::waiting::{Interrupt, limit, quick, wait};

/// What can be watched for: name and number in Python.
pub(crate) const INTERESTS: [(&str, u8, Interest); 6] = [
    ("HEAD", 1, Interest::Head),
    ("DATA", 2, Interest::Data),
    ("END", 3, Interest::End),
    ("WRITABLE", 4, Interest::Writable),
    ("INFORMATIONAL", 5, Interest::Informational),
    ("WHOLE", 6, Interest::Whole),
];

/// Reads up to here go straight into the memory of the result. Larger ones are often far larger than
/// what is left to read: their memory grows with it.
const IN_PLACE: usize = 256 * 1024;

#[pyclass(name = "Exchange", module = "trilane._core", frozen, weakref)]
pub(crate) struct PyExchange {
    exchange: Released<Exchange>,
    /// Informational responses that the caller has waited for.
    informed: AtomicUsize,
}

impl PyExchange {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self {
            exchange: Released::new(exchange),
            informed: AtomicUsize::new(0),
        }
    }
}

impl PyExchange {
    /// Looks at the exchange; the interpreter lock is released only where another thread is at work
    /// on the connection.
    fn look<T: Send>(&self, py: Python<'_>, look: impl FnOnce(&Exchange) -> T + Send) -> T {
        quick(py, self.exchange.connection(), || look(&self.exchange))
    }

    /// Content that is there, copied once: nothing is waited for while the connection's lock is held.
    fn lend<'py>(&self, py: Python<'py>, least: usize, most: usize) -> Option<Bound<'py, PyBytes>> {
        let new = |content: &[u8]| PyBytes::new(py, content);
        self.exchange.lend(least, most, new)
    }

    /// Does what may wait; what is at hand is taken without releasing the interpreter lock.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        interest: Interest,
        work: impl FnOnce(&Exchange, &mut dyn Patience) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        if self.exchange.is_at_hand(interest) {
            return work(&self.exchange, &mut Interrupt::default())
                .map_err(|error| errors::raised(py, &error));
        }
        wait(py, |patience| work(&self.exchange, patience))
    }
}

#[pymethods]
impl PyExchange {
    #[getter]
    fn stream_id(&self, py: Python<'_>) -> u64 {
        self.look(py, Exchange::stream_id)
    }

    #[getter]
    fn token(&self) -> u32 {
        self.exchange.token()
    }

    #[getter]
    fn version(&self, py: Python<'_>) -> &'static str {
        if self.look(py, |exchange| exchange.is_http_1_0()) {
            "h1.0"
        } else {
            self.exchange.version().name()
        }
    }

    #[pyo3(signature = (timeout = None))]
    fn head(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<u16> {
        let timeout = limit(py, timeout)?;
        self.wait(py, Interest::Head, |exchange, patience| {
            exchange.head(timeout, patience)
        })
    }

    fn has(&self, py: Python<'_>, name: &str) -> bool {
        self.look(py, |exchange| exchange.has_field(name.as_bytes()))
    }

    fn sections(&self, py: Python<'_>) -> PySections {
        PySections(self.look(py, |exchange| exchange.sections()))
    }

    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        fields::pairs(py, &self.look(py, |exchange| exchange.fields()))
    }

    #[getter]
    fn reason<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        fields::text(py, &self.look(py, |exchange| exchange.reason()))
    }

    #[getter]
    fn informational<'py>(&self, py: Python<'py>) -> PyResult<Vec<(u16, Bound<'py, PyList>)>> {
        fields::heads(py, &self.look(py, |exchange| exchange.informational()))
    }

    #[pyo3(signature = (timeout = None))]
    fn wait_informational(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<u16>> {
        let timeout = limit(py, timeout)?;
        let seen = self.informed.load(Ordering::Relaxed);
        let status = wait(py, |patience| {
            self.exchange.wait_informational(seen, timeout, patience)
        })?;
        if status.is_some() {
            self.informed.store(seen + 1, Ordering::Relaxed);
        }
        Ok(status)
    }

    #[pyo3(signature = (amount = -1, timeout = None), text_signature = "($self, amount=-1, timeout=None)")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        amount: i64,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let timeout = limit(py, timeout)?;
        let most = portion(amount);
        if let Some(bytes) = self.lend(py, most, most) {
            return Ok(bytes);
        }
        if most > IN_PLACE {
            let taken = self.wait(py, Interest::End, |exchange, patience| {
                exchange.read_up_to(most, timeout, patience)
            })?;
            return Ok(PyBytes::new(py, &taken));
        }
        let mut filled = 0;
        let bytes = PyBytes::new_with(py, most, |buffer| {
            filled = self.wait(py, Interest::End, |exchange, patience| {
                exchange.read(buffer, timeout, patience)
            })?;
            Ok(())
        })?;
        if filled == most {
            return Ok(bytes);
        }
        Ok(PyBytes::new(py, &bytes.as_bytes()[..filled]))
    }

    #[pyo3(signature = (amount = -1, timeout = None), text_signature = "($self, amount=-1, timeout=None)")]
    fn read1<'py>(
        &self,
        py: Python<'py>,
        amount: i64,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let timeout = limit(py, timeout)?;
        let most = portion(amount);
        if let Some(bytes) = self.lend(py, 1, most) {
            return Ok(bytes);
        }
        wait(py, |patience| self.exchange.arrival(timeout, patience))?;
        if let Some(bytes) = self.lend(py, 1, most) {
            return Ok(bytes);
        }
        let some = wait(py, |patience| {
            self.exchange.read_some(most, timeout, patience)
        })?;
        Ok(PyBytes::new(py, &some))
    }

    #[pyo3(signature = (buffer, timeout = None))]
    fn readinto(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let timeout = limit(py, timeout)?;
        let mut buffer = Writable::new(buffer)?;
        let bytes = buffer.as_bytes_mut();
        wait(py, |patience| {
            self.exchange.readinto(bytes, timeout, patience)
        })
    }

    fn trailers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self.look(py, |exchange| exchange.trailers()) {
            Some(section) => fields::pairs(py, &section),
            None => Ok(PyList::empty(py)),
        }
    }

    #[getter]
    fn complete(&self, py: Python<'_>) -> bool {
        self.look(py, |exchange| exchange.is_complete())
    }

    #[getter]
    fn times(&self, py: Python<'_>) -> Option<(Option<f64>, Option<f64>, u64, u64)> {
        let times = self.look(py, |exchange| exchange.times())?;
        let seconds = |step: Option<Duration>| step.as_ref().map(Duration::as_secs_f64);
        Some((
            seconds(times.to_head()),
            seconds(times.to_end()),
            times.sent,
            times.received,
        ))
    }

    #[getter]
    fn quiet(&self, py: Python<'_>) -> f64 {
        self.look(py, |exchange| exchange.quiet()).as_secs_f64()
    }

    #[getter]
    fn unread(&self, py: Python<'_>) -> usize {
        self.look(py, |exchange| exchange.unread())
    }

    #[getter]
    fn content_length(&self, py: Python<'_>) -> Option<u64> {
        self.look(py, |exchange| exchange.content_length())
    }

    #[pyo3(signature = (data, timeout = None))]
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let timeout = limit(py, timeout)?;
        let data = Readable::new(data)?;
        let bytes = data.as_bytes();
        wait(py, |patience| self.exchange.write(bytes, timeout, patience))
    }

    #[pyo3(signature = (trailers = None, timeout = None))]
    fn finish(
        &self,
        py: Python<'_>,
        trailers: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let timeout = limit(py, timeout)?;
        let section = match trailers {
            Some(given) => Given::new(given)?.list(),
            None => FieldList::new(),
        };
        wait(py, |patience| {
            self.exchange.finish(&section, timeout, patience)
        })
    }

    #[getter]
    fn upload_open(&self, py: Python<'_>) -> bool {
        self.look(py, |exchange| exchange.upload_open())
    }

    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.exchange.cancel());
    }

    fn watch(&self, py: Python<'_>, what: u8) -> PyResult<bool> {
        let known = INTERESTS.iter().find(|(_, number, _)| *number == what);
        let Some((_, _, interest)) = known else {
            let message = format!(
                "{what} cannot be watched for: HEAD, DATA, END, WRITABLE, INFORMATIONAL and WHOLE can"
            );
            return Err(errors::mistake(py, message));
        };
        Ok(self.look(py, |exchange| exchange.watch(*interest)))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let version = self.exchange.version().name();
        format!(
            "<trilane._core.Exchange {} of {version}>",
            self.stream_id(py)
        )
    }
}

/// How many bytes; a negative number asks for all of them.
fn portion(amount: i64) -> usize {
    usize::try_from(amount).unwrap_or(usize::MAX)
}
