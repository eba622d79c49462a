//! Values whose end takes a lock.

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
///
/// There is a value until the end.
pub(super) struct Released<T: Connected>(Option<T>);

impl<T: Connected> Released<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Connected> Deref for Released<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => unreachable!("the value is taken by the end alone"),
        }
    }
}

impl<T: Connected> Drop for Released<T> {
    fn drop(&mut self) {
        let Some(value) = self.0.take_if(|value| !value.connection().is_free()) else {
            return;
        };
        // Where the interpreter is shutting down, the closure goes away and the value with it.
        Python::try_attach(|py| py.detach(|| drop(value)));
    }
}
