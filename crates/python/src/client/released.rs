//! Values whose end takes a lock.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ops::Deref;

use pyo3::prelude::*;

/// Drops its value with the interpreter lock released, as everything else is done: what goes away is
/// a request to cancel or a connection to say goodbye on, while another thread may be at work on it.
pub(super) struct Released<T: Send>(ManuallyDrop<T>);

impl<T: Send> Released<T> {
    pub(super) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T: Send> Deref for Released<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send> Drop for Released<T> {
    fn drop(&mut self) {
        // SAFETY: this is the end of `self`, so nobody looks at the place that the value has left.
        let value = unsafe { ManuallyDrop::take(&mut self.0) };
        // Where the interpreter is shutting down, the closure goes away and the value with it.
        Python::try_attach(|py| py.detach(|| drop(value)));
    }
}
