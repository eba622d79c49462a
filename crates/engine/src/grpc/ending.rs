//! The status of calls that ended without the server having told one, as a client of gRPC sees it.

use trilane_grpc::status::Code;
use trilane_wire::{ErrorKind, StreamError};

use crate::failure::FailureKind;

/// That of a call that failed in this way.
pub(crate) fn code_of(kind: FailureKind) -> Code {
    match kind {
        // gRPC's clients know no other limit than a deadline.
        FailureKind::Timeout => Code::DeadlineExceeded,
        FailureKind::Dns
        | FailureKind::Connect
        | FailureKind::Refused
        | FailureKind::Tls
        | FailureKind::HandshakeTimeout
        | FailureKind::Closed
        | FailureKind::Reset
        | FailureKind::Goaway => Code::Unavailable,
        FailureKind::Protocol | FailureKind::Body => Code::Internal,
        FailureKind::Status | FailureKind::Check => Code::Unknown,
        FailureKind::Limit => Code::ResourceExhausted,
    }
}

/// That of a call whose stream or connection failed with this error: what a code of RST_STREAM means
/// ([gRPC over HTTP/2](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#errors)), and the
/// same of HTTP/3 (RFC 9114 §8.1).
pub(crate) fn code_of_error(error: &StreamError) -> Code {
    if error.kind != ErrorKind::Reset {
        return code_of(error.kind.into());
    }
    match error.code {
        // REFUSED_STREAM, H3_REQUEST_REJECTED.
        Some(0x7 | 0x10b) => Code::Unavailable,
        // CANCEL, H3_REQUEST_CANCELLED.
        Some(0x8 | 0x10c) => Code::Cancelled,
        // ENHANCE_YOUR_CALM, H3_EXCESSIVE_LOAD.
        Some(0xb | 0x107) => Code::ResourceExhausted,
        // INADEQUATE_SECURITY.
        Some(0xc) => Code::PermissionDenied,
        // STREAM_CLOSED, which has no meaning to gRPC.
        Some(0x5) => Code::Unknown,
        Some(_) => Code::Internal,
        // The connection was reset.
        None => Code::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use trilane_wire::Unprocessed;

    use super::*;

    #[test]
    fn codes_of_resets_are_those_of_grpc() {
        let reset = |code| {
            code_of_error(&StreamError {
                kind: ErrorKind::Reset,
                unprocessed: Unprocessed::Unknown,
                code,
                reason: "reset",
            })
        };
        for (code, expected) in [
            (Some(0), Code::Internal),
            (Some(1), Code::Internal),
            (Some(2), Code::Internal),
            (Some(5), Code::Unknown),
            (Some(7), Code::Unavailable),
            (Some(8), Code::Cancelled),
            (Some(11), Code::ResourceExhausted),
            (Some(12), Code::PermissionDenied),
            (Some(0x102), Code::Internal),
            (Some(0x107), Code::ResourceExhausted),
            (Some(0x10b), Code::Unavailable),
            (Some(0x10c), Code::Cancelled),
            (None, Code::Unavailable),
        ] {
            assert_eq!(reset(code), expected, "{code:?}");
        }
    }

    #[test]
    fn lost_connections_and_limits_of_ours_have_codes() {
        for (kind, code) in [
            (FailureKind::Closed, Code::Unavailable),
            (FailureKind::Goaway, Code::Unavailable),
            (FailureKind::Refused, Code::Unavailable),
            (FailureKind::Timeout, Code::DeadlineExceeded),
            (FailureKind::Limit, Code::ResourceExhausted),
            (FailureKind::Protocol, Code::Internal),
        ] {
            assert_eq!(code_of(kind), code, "{kind:?}");
        }
    }
}
