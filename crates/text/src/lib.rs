//! Text for people: without secrets, and without what a terminal would obey.
//!
//! One list of names ([`is_secret`]) decides what a secret is, for the engine, the command and, by the Python module,
//! the lab. [`field`], [`url`] and [`command`] hide values of such names in the places where they are written.

mod secrets;
mod terminal;

pub use secrets::{HIDDEN, command, field, is_secret, url};
pub use terminal::{line, lines};
