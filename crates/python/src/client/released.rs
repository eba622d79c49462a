//! Values whose end takes a lock.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ops::Deref;

use pyo3::prelude::*;
use trilane_client::{Connection, Exchange};

/// What is on a connection.
pub(super) trait Connected: Send {
    fn connection(&self) -> &Connection;
}

impl Connected for Connection {
    fn connection(&self) -> &Connection {
        self
    }
}

impl Connected for Exchange {
    fn connection(&self) -> &Connection {
        Exchange::connection(self)
    }
}

/// Drops its value with the interpreter lock released where another thread is at work on the
/// connection: what goes away may be a request to cancel.
pub(super) struct Released<T: Connected>(ManuallyDrop<T>);

impl<T: Connected> Released<T> {
    pub(super) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T: Connected> Deref for Released<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Connected> Drop for Released<T> {
    fn drop(&mut self) {
        // SAFETY: this is the end of `self`, so nobody looks at the place that the value has left.
        let value = unsafe { ManuallyDrop::take(&mut self.0) };
        if value.connection().is_free() {
            return;
        }
        // Where the interpreter is shutting down, the closure goes away and the value with it.
        Python::try_attach(|py| py.detach(|| drop(value)));
    }
}
