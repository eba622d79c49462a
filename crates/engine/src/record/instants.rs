//! When something happened to one request.

use serde::{Deserialize, Serialize};

use crate::slowest::Of;

/// The instants of one request and which it is; the times in nanoseconds since the run began.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Instants {
    /// When it should have been sent.
    pub(crate) intended: u64,
    /// When its first byte was handed to the kernel.
    pub(crate) start: u64,
    /// When the head of its response arrived; 0 before.
    pub(crate) head: u64,
    /// Whether it was the first on its connection.
    pub(crate) cold: bool,
    /// Which request it is.
    pub(crate) of: Of,
}

/// What lies between the intended start of a request and its first byte, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// There was room for it, and the worker was not there: ours.
    pub(crate) late: u64,
    /// No stream, window or connection was free: the server's, or the plan's.
    pub(crate) queued: u64,
}

impl Wait {
    /// Of a request that was due at `due` and leaves at `now`, where there has been room since
    /// `room_since`, or only just now.
    pub(crate) fn between(due: u64, room_since: Option<u64>, now: u64) -> Self {
        let could_leave = room_since.unwrap_or(now).clamp(due.min(now), now);
        Self {
            late: now - could_leave,
            queued: could_leave.saturating_sub(due),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_ours_from_the_instant_when_there_was_room() {
        let wait = |due, room, now| {
            let wait = Wait::between(due, room, now);
            (wait.late, wait.queued)
        };
        // There was room before it was due: whatever it waited, the worker was late.
        assert_eq!(wait(100, Some(50), 107), (7, 0));
        // The room came later, and the worker after that.
        assert_eq!(wait(100, Some(130), 131), (1, 30));
        // The room came in this very turn.
        assert_eq!(wait(100, None, 400), (0, 300));
        assert_eq!(wait(100, Some(100), 100), (0, 0));
    }
}
