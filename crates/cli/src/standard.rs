//! The standard streams, where whoever started the command has closed some.

use std::fs::File;
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Puts `/dev/null` where a standard stream is closed: else a socket would get its number, and what is
/// printed would go to the server. Whether stdout was closed is remembered, because what is written
/// there is lost now.
///
/// Rust's runtime does the same, but remembers nothing: the native program calls this before it. Inside
/// Python the runtime does not run.
pub fn occupy_standard_streams() {
    // The system gives the lowest number that is free.
    while let Ok(null) = File::options().read(true).write(true).open("/dev/null")
        && null.as_raw_fd() <= 2
    {
        if null.into_raw_fd() == 1 {
            STDOUT_IS_CLOSED.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether the command was started with stdout closed.
pub(crate) fn is_stdout_closed() -> bool {
    STDOUT_IS_CLOSED.load(Ordering::Relaxed)
}
