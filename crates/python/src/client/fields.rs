//! Field sections between Python's pairs of str and the client's bytes.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use trilane_client::FieldList;

use super::errors;

/// More than any server accepts; far below what a section can index.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Fields as the caller gave them, kept alive so that their bytes can be borrowed.
pub(super) struct Given<'py>(Vec<(Text<'py>, Text<'py>)>);

impl<'py> Given<'py> {
    /// Takes a sequence of pairs of str or bytes.
    pub(super) fn new(fields: &Bound<'py, PyAny>) -> PyResult<Self> {
        let mut given = Vec::with_capacity(8);
        if let Ok(list) = fields.cast_exact::<PyList>() {
            for field in list {
                given.push(pair(&field)?);
            }
        } else {
            for field in fields.try_iter()? {
                given.push(pair(&field?)?);
            }
        }
        let size = given.iter().map(|(name, value)| name.len() + value.len());
        let size: usize = size.sum();
        if size > MOST_BYTES {
            let message = format!(
                "the fields have {size} bytes, more than {MOST_BYTES}: send them as content"
            );
            return Err(errors::mistake(fields.py(), message));
        }
        Ok(Self(given))
    }

    /// Names and values, borrowed.
    pub(super) fn borrowed(&self) -> Vec<(&[u8], &[u8])> {
        let pairs = self.0.iter();
        pairs
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect()
    }

    /// Names and values, copied.
    pub(super) fn list(&self) -> FieldList {
        let mut list = FieldList::new();
        for (name, value) in &self.0 {
            list.push(name.as_bytes(), value.as_bytes());
        }
        list
    }
}

fn pair<'py>(field: &Bound<'py, PyAny>) -> PyResult<(Text<'py>, Text<'py>)> {
    let (name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) =
        field.extract().map_err(|_| no_pair(field))?;
    let value = Text::new(value)?.map_err(|found| no_value(&name, &found))?;
    let name = Text::new(name)?.map_err(|found| no_name(&found))?;
    Ok((name, value))
}

fn no_name(found: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "the name of a field is of type {}: give str or bytes",
        kind_of(found)
    ))
}

/// The error for what is no pair. What it holds may be a secret, and is not told.
fn no_pair(found: &Bound<'_, PyAny>) -> PyErr {
    let what = match found.cast::<PyTuple>() {
        Ok(tuple) => format!("a tuple of {}", tuple.len()),
        Err(_) => kind_of(found),
    };
    PyTypeError::new_err(format!(
        "a field is a tuple of a name and a value, each str or bytes, not {what}"
    ))
}

fn no_value(name: &Bound<'_, PyAny>, found: &Bound<'_, PyAny>) -> PyErr {
    let way_out = if found.is_none() {
        "leave the field out, or give str or bytes"
    } else {
        "give str or bytes, as by str(value)"
    };
    let name = name
        .repr()
        .map_or_else(|_| "a field".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "the value of the field {name} is of type {}: {way_out}",
        kind_of(found)
    ))
}

fn kind_of(found: &Bound<'_, PyAny>) -> String {
    let kind = found.get_type().name();
    kind.map_or_else(|_| "that".to_owned(), |name| name.to_string())
}

/// What Python calls text, as the bytes that are sent.
enum Text<'py> {
    Ascii(Bound<'py, PyString>),
    Bytes(Bound<'py, PyBytes>),
}

impl<'py> Text<'py> {
    /// The object itself where it is neither str nor bytes.
    fn new(value: Bound<'py, PyAny>) -> PyResult<Result<Self, Bound<'py, PyAny>>> {
        let value = match value.cast_into::<PyString>() {
            Ok(text) => return Self::encoded(text).map(Ok),
            Err(other) => other.into_inner(),
        };
        Ok(match value.cast_into::<PyBytes>() {
            Ok(bytes) => Ok(Self::Bytes(bytes)),
            Err(other) => Err(other.into_inner()),
        })
    }

    /// ISO-8859-1 is what RFC 9110 §5.5 says of old for bytes above ASCII.
    fn encoded(text: Bound<'py, PyString>) -> PyResult<Self> {
        let py = text.py();
        let utf8 = text.to_str().unwrap_or("\u{fffd}");
        if utf8.is_ascii() {
            return Ok(Self::Ascii(text));
        }
        let latin1: Result<Vec<u8>, _> = utf8.chars().map(u8::try_from).collect();
        match latin1 {
            Ok(bytes) => Ok(Self::Bytes(PyBytes::new(py, &bytes))),
            Err(_) => Err(errors::mistake(
                py,
                format!("the field text {utf8:?} is not ISO-8859-1: give the bytes to send"),
            )),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            // It was read when it was made, and str does not change.
            Self::Ascii(text) => text.to_str().unwrap_or_default().as_bytes(),
            Self::Bytes(bytes) => bytes.as_bytes(),
        }
    }

    fn len(&self) -> usize {
        self.as_bytes().len()
    }
}

/// A section as a list of pairs of str, decoded as ISO-8859-1, which loses nothing.
pub(super) fn pairs<'py>(py: Python<'py>, section: &FieldList) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (name, value) in section.iter() {
        list.append(PyTuple::new(py, [self::name(py, name), text(py, value)])?)?;
    }
    Ok(list)
}

/// Status and fields of each head.
pub(super) fn heads<'py>(
    py: Python<'py>,
    heads: &[(u16, FieldList)],
) -> PyResult<Vec<(u16, Bound<'py, PyList>)>> {
    let heads = heads.iter();
    heads
        .map(|(status, section)| Ok((*status, pairs(py, section)?)))
        .collect()
}

/// A str of bytes in ISO-8859-1.
pub(super) fn text<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    match str::from_utf8(bytes) {
        Ok(ascii) if ascii.is_ascii() => PyString::new(py, ascii),
        _ => {
            let decoded: String = bytes.iter().copied().map(char::from).collect();
            PyString::new(py, &decoded)
        }
    }
}

/// A field name. The common ones exist once, with their hash, which dicts will ask for.
fn name<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    macro_rules! common {
        ($($known:literal)*) => {
            match str::from_utf8(bytes) {
                $(Ok($known) => intern!(py, $known).clone(),)*
                _ => text(py, bytes),
            }
        };
    }
    common! {
        "accept-ranges" "age" "alt-svc" "cache-control" "connection" "content-encoding"
        "content-length" "content-type" "date" "etag" "expires" "last-modified" "location" "server"
        "set-cookie" "strict-transport-security" "transfer-encoding" "vary" "via"
        "x-content-type-options" "x-frame-options"
        "Accept-Ranges" "Cache-Control" "Connection" "Content-Encoding" "Content-Length"
        "Content-Type" "Date" "ETag" "Last-Modified" "Location" "Server" "Set-Cookie"
        "Transfer-Encoding" "Vary"
    }
}
