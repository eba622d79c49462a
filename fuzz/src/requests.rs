//! The requests that targets send.

use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use trilane_wire::{Content, Encoding, OneOff, Request, RequestParts};

/// What is asked for.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Head,
    /// A body that is sent at once.
    Small,
    /// A body that takes more than the first windows of HTTP/2.
    Large,
    /// Prepared once, with content of a length that is not announced.
    Repeated,
    /// Content of a length that is not announced.
    Streamed,
    /// Content of which [`ANNOUNCED`] bytes are announced.
    Announced,
    /// A field section of 3000 bytes, which small limits refuse.
    Wide,
    /// HTTP/1.1 alone: the connection ends with the response. Elsewhere an ordinary request.
    Closing,
    /// HTTP/1.1 alone: `CONNECT`. Elsewhere an ordinary request.
    Connect,
    /// HTTP/1.1 alone: the caller writes the chunks. Elsewhere as `Streamed`.
    OwnChunks,
    /// HTTP/1.1 alone: nothing says where the content ends. Elsewhere as `Streamed`.
    Unframed,
}

/// Bytes of [`Kind::Large`].
const LARGE: usize = 100_000;
/// Bytes of [`Kind::Announced`].
const ANNOUNCED: u64 = 300;

const KINDS: [Kind; 12] = [
    Kind::Get,
    Kind::Head,
    Kind::Small,
    Kind::Large,
    Kind::Repeated,
    Kind::Streamed,
    Kind::Announced,
    Kind::Wide,
    Kind::Closing,
    Kind::Connect,
    Kind::OwnChunks,
    Kind::Unframed,
];

impl Kind {
    /// The request, prepared for `version`: the same one at every call, so that what a connection
    /// keeps of the requests before is met.
    pub(crate) fn request(self, version: Encoding) -> &'static Request {
        static ALL: LazyLock<Vec<[Request; KINDS.len()]>> = LazyLock::new(|| {
            let versions = [Encoding::H1, Encoding::H2, Encoding::H3];
            let all = versions.map(|version| KINDS.map(|kind| prepare(kind, version)));
            all.into()
        });
        &ALL[version as usize][self as usize]
    }

    /// The content that has been announced and is written by the caller, in bytes.
    pub(crate) fn announced(self) -> Option<u64> {
        (self == Self::Announced).then_some(ANNOUNCED)
    }
}

fn prepare(kind: Kind, version: Encoding) -> Request {
    match kind {
        Kind::Get => request("GET", 0),
        Kind::Head => request("HEAD", 0),
        Kind::Small => request("POST", 500),
        Kind::Large => request("POST", LARGE),
        Kind::Repeated => Request::streamed(&parts("POST", 0)).expect("every part is valid"),
        Kind::Announced => one_off(version, "PUT", &[], streamed(Some(ANNOUNCED), false)),
        Kind::Wide => {
            let value = [b'w'; 3000];
            one_off(version, "GET", &[(b"x-wide", &value)], whole())
        }
        Kind::Closing => one_off(version, "GET", &[(b"Connection", b"close")], whole()),
        Kind::Connect if version == Encoding::H1 => one_off(version, "CONNECT", &[], whole()),
        Kind::Connect => request("GET", 0),
        Kind::OwnChunks if version == Encoding::H1 => {
            let fields: &[(&[u8], &[u8])] = &[(b"Transfer-Encoding", b"chunked")];
            one_off(version, "PUT", fields, streamed(None, true))
        }
        Kind::Unframed if version == Encoding::H1 => {
            one_off(version, "PUT", &[], streamed(None, true))
        }
        Kind::Streamed | Kind::OwnChunks | Kind::Unframed => {
            one_off(version, "PUT", &[], streamed(None, false))
        }
    }
}

fn whole() -> Content {
    Content::Whole([].into())
}

fn streamed(length: Option<u64>, raw: bool) -> Content {
    Content::Streamed { length, raw }
}

fn parts(method: &str, body: usize) -> RequestParts<'_> {
    RequestParts {
        method,
        scheme: "https",
        authority: "a.example",
        path: "/",
        fields: &[],
        body: Arc::from(vec![b'b'; body]),
        repeated: true,
    }
}

fn request(method: &str, body: usize) -> Request {
    Request::new(&parts(method, body)).expect("every part is valid")
}

fn one_off(
    version: Encoding,
    method: &str,
    fields: &[(&[u8], &[u8])],
    content: Content,
) -> Request {
    let parts = OneOff {
        method,
        scheme: "https",
        authority: "a.example",
        path: if method == "CONNECT" {
            "a.example:443"
        } else {
            "/"
        },
        fields,
        content,
    };
    Request::one_off(version, &parts).expect("every part is valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_stands_in_its_place() {
        for (place, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
        let request = Kind::Announced.request(Encoding::H1);
        assert_eq!(request.streamed_length(), Kind::Announced.announced());
    }
}
