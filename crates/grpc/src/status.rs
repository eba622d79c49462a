//! How a call ended: `grpc-status` and `grpc-message`.

use percent_encoding::percent_decode;

/// The most of a `grpc-message` that is kept, in characters.
const LONGEST: usize = 1024;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal $name:literal,)*) => {
        /// A status code of gRPC.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Code {
            $($(#[$doc])* $variant = $number,)*
        }

        impl Code {
            /// All codes, by number.
            pub const ALL: [Code; 17] = [$(Code::$variant),*];

            /// The name in capitals, such as `NOT_FOUND`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Code::$variant => $name,)*
                }
            }
        }
    };
}

codes! {
    /// The call succeeded.
    Ok = 0 "OK",
    /// The caller ended the call.
    Cancelled = 1 "CANCELLED",
    /// Another error, or one without a code.
    Unknown = 2 "UNKNOWN",
    /// The request is wrong, whatever the state of the server.
    InvalidArgument = 3 "INVALID_ARGUMENT",
    /// The time was up.
    DeadlineExceeded = 4 "DEADLINE_EXCEEDED",
    /// There is no such thing.
    NotFound = 5 "NOT_FOUND",
    /// There is such a thing already.
    AlreadyExists = 6 "ALREADY_EXISTS",
    /// The caller may not do this.
    PermissionDenied = 7 "PERMISSION_DENIED",
    /// A quota or a resource is used up.
    ResourceExhausted = 8 "RESOURCE_EXHAUSTED",
    /// The server is not in the state that the call needs.
    FailedPrecondition = 9 "FAILED_PRECONDITION",
    /// Another call was in the way.
    Aborted = 10 "ABORTED",
    /// Beyond the end.
    OutOfRange = 11 "OUT_OF_RANGE",
    /// The server has no such method.
    Unimplemented = 12 "UNIMPLEMENTED",
    /// Something is broken.
    Internal = 13 "INTERNAL",
    /// The service is not there now.
    Unavailable = 14 "UNAVAILABLE",
    /// Data is lost.
    DataLoss = 15 "DATA_LOSS",
    /// The caller did not say who it is.
    Unauthenticated = 16 "UNAUTHENTICATED",
}

impl Code {
    /// The code of this name, in capitals or not, or of this number; `None` where there is none.
    pub fn named(text: &str) -> Option<Self> {
        let named = || {
            Self::ALL
                .into_iter()
                .find(|code| code.name().eq_ignore_ascii_case(text))
        };
        match text.parse() {
            Ok(number) => Self::from_u32(number),
            Err(_) => named(),
        }
    }

    /// The code of a number; `None` above 16.
    pub fn from_u32(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The value of `grpc-status`. A number that is no code is [`Code::Unknown`]; `None` is for what is
/// no number.
pub fn parse(value: &[u8]) -> Option<Code> {
    match value {
        [digit @ b'0'..=b'9'] => Code::from_u32((digit - b'0').into()),
        [] => None,
        digits if digits.iter().all(u8::is_ascii_digit) => {
            let number = std::str::from_utf8(digits).ok()?.parse().ok();
            Some(number.and_then(Code::from_u32).unwrap_or(Code::Unknown))
        }
        _ => None,
    }
}

/// The text of a `grpc-message`, on one line and at most 1024 characters long. What is not
/// percent-encoded as it should be stays as it is, as the specification asks for.
pub fn message(value: &[u8]) -> String {
    // A character has at most four bytes, each of which may be written with three.
    let value = &value[..value.len().min(LONGEST * 12)];
    percent_decode(value)
        .decode_utf8_lossy()
        .chars()
        .take(LONGEST)
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect()
}

/// The code of a response that has an HTTP status other than 200 and no `grpc-status`
/// ([table](https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md)).
pub fn of_http(status: u16) -> Code {
    match status {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502 | 503 | 504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
    use proptest::prelude::*;

    /// `Percent-Byte-Unencoded` of the specification is all but these and bytes beyond ASCII.
    const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

    #[test]
    fn codes_have_their_numbers() {
        for (number, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, number);
            assert_eq!(Code::from_u32(number as u32), Some(code));
            assert_eq!(parse(number.to_string().as_bytes()), Some(code));
        }
        assert_eq!(Code::from_u32(17), None);
        for (text, code) in [
            ("not_found", Some(Code::NotFound)),
            ("OK", Some(Code::Ok)),
            ("5", Some(Code::NotFound)),
            ("17", None),
            ("404", None),
            ("", None),
            ("NOTFOUND", None),
        ] {
            assert_eq!(Code::named(text), code, "{text}");
        }
        assert_eq!(Code::Unauthenticated.to_string(), "UNAUTHENTICATED");
    }

    #[test]
    fn other_values_are_unknown_or_none() {
        assert_eq!(parse(b"17"), Some(Code::Unknown));
        assert_eq!(parse(b"99999999999999999999"), Some(Code::Unknown));
        assert_eq!(parse(b"05"), Some(Code::NotFound));
        for value in [&b""[..], b"OK", b"-1", b"1.0", b" 1", b"0x1", b"\xff"] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }

    #[test]
    fn messages_are_percent_decoded() {
        assert_eq!(message(b"no such book"), "no such book");
        assert_eq!(message(b"100%25 of caf%C3%A9"), "100% of café");
        assert_eq!(message(b"caf%c3%a9"), "café");
    }

    #[test]
    fn broken_messages_stay_readable() {
        assert_eq!(message(b"50% of %zz%4"), "50% of %zz%4");
        assert_eq!(message(b"%FFx"), "\u{fffd}x");
        assert_eq!(message(b"a%0Ab%1b[31m"), "a b [31m");
        assert_eq!(message(&b"%C3%A9".repeat(5000)), "é".repeat(LONGEST));
        assert_eq!(message(&[b'x'; 100_000]).len(), LONGEST);
    }

    #[test]
    fn http_statuses_are_mapped() {
        for (status, code) in [
            (400, Code::Internal),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (429, Code::Unavailable),
            (503, Code::Unavailable),
            (200, Code::Unknown),
            (500, Code::Unknown),
        ] {
            assert_eq!(of_http(status), code, "{status}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_comes_back(text in "[^\\p{Cc}]{0,200}") {
            let encoded = percent_encode(text.as_bytes(), ENCODED).to_string();
            prop_assert_eq!(message(encoded.as_bytes()), text);
        }

        #[test]
        fn any_bytes_become_one_line(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let text = message(&bytes);
            prop_assert!(!text.contains(char::is_control));
            prop_assert!(text.chars().count() <= LONGEST);
            parse(&bytes);
        }
    }
}
