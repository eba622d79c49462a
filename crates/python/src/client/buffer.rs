//! Python's memory, used while the interpreter lock is released.
//!
//! A buffer stays where it is and keeps its length for as long as it is exported (PEP 3118). Its bytes
//! may change under us if another thread writes to it meanwhile; as with `socket.send` and
//! `socket.recv_into`, that is the caller's to avoid, and only the bytes are undefined then.
#![allow(unsafe_code)]

use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Bytes to read from.
pub(super) enum Readable<'py> {
    Bytes(Bound<'py, PyBytes>),
    Buffer(PyUntypedBuffer),
}

impl<'py> Readable<'py> {
    /// Of `bytes` or anything with a buffer; only one that is not contiguous is copied.
    pub(super) fn new(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.clone()));
        }
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.is_c_contiguous() {
            return Ok(Self::Buffer(buffer));
        }
        let copy = object.py().get_type::<PyBytes>().call1((object,))?;
        Ok(Self::Bytes(copy.cast_into()?))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.as_bytes(),
            Self::Buffer(buffer) if buffer.len_bytes() == 0 => &[],
            Self::Buffer(buffer) => {
                // SAFETY: a contiguous buffer has `len_bytes` readable bytes from `buf_ptr` on until it
                // is released, which takes `self`.
                unsafe { slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) }
            }
        }
    }
}

/// Bytes to write to.
pub(super) struct Writable(PyUntypedBuffer);

impl Writable {
    pub(super) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err(
                "a buffer to read into must be writable and contiguous, such as a bytearray",
            ));
        }
        Ok(Self(buffer))
    }

    pub(super) fn as_bytes_mut(&mut self) -> &mut [u8] {
        if self.0.len_bytes() == 0 {
            return &mut [];
        }
        // SAFETY: as for `Readable`; the buffer is writable, and `self` lends it once at a time.
        unsafe { slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}
