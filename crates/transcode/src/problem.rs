//! What is answered where there is no message to answer with.

use std::fmt;

/// `INVALID_ARGUMENT` of `google.rpc.Code`.
const INVALID_ARGUMENT: u32 = 3;
/// `INTERNAL` of `google.rpc.Code`.
const INTERNAL: u32 = 13;

/// A request that is not the message it should be, or a response that has no form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The code of gRPC: 3, INVALID_ARGUMENT, for what the caller sent.
    pub code: u32,
    /// One sentence for the caller.
    pub message: String,
}

impl Problem {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Problem {
            code: INVALID_ARGUMENT,
            message: message.into(),
        }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Problem {
            code: INTERNAL,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// The status of HTTP for a code of gRPC, as `google/rpc/code.proto` has it.
#[must_use]
pub fn http_status(code: u32) -> u16 {
    match code {
        0 => 200,          // OK
        1 => 499,          // CANCELLED
        3 | 9 | 11 => 400, // INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE
        4 => 504,          // DEADLINE_EXCEEDED
        5 => 404,          // NOT_FOUND
        6 | 10 => 409,     // ALREADY_EXISTS, ABORTED
        7 => 403,          // PERMISSION_DENIED
        8 => 429,          // RESOURCE_EXHAUSTED
        12 => 501,         // UNIMPLEMENTED
        14 => 503,         // UNAVAILABLE
        16 => 401,         // UNAUTHENTICATED
        _ => 500,          // UNKNOWN, INTERNAL, DATA_LOSS, and what nobody knows
    }
}
