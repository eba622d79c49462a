//! How long the command waits for its own client.

use std::time::Duration;

use trilane_client::Patience;

/// A signal ends the command; every wait has an end.
pub(crate) struct Patient;

impl Patience for Patient {
    fn exhausted(&mut self) -> bool {
        false
    }

    fn slice(&self) -> Option<Duration> {
        None
    }
}
