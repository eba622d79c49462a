//! Fields of responses in HTTP/2 and HTTP/3, sound or not.

use arbitrary::Arbitrary;
use trilane_wire::request::Indexing;

/// Name, value, and how it is encoded.
pub(crate) type Line = (Vec<u8>, Vec<u8>, Indexing);

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Field {
    Status(Status),
    Length(u16),
    Ordinary(u8, bool),
    Long(u16),
    UpperCase,
    Connection,
    Path,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Status {
    Ok,
    NoContent,
    NotModified,
    Continue,
    EarlyHints,
    SwitchingProtocols,
    Wrong,
}

pub(crate) fn lines(fields: &[Field]) -> Vec<Line> {
    fields.iter().map(|field| field.line()).collect()
}

/// As encoders take them.
pub(crate) fn of(lines: &[Line]) -> impl Iterator<Item = (&[u8], &[u8], Indexing)> {
    lines
        .iter()
        .map(|(name, value, how)| (&name[..], &value[..], *how))
}

impl Field {
    fn line(self) -> Line {
        let plain =
            |name: &[u8], value: String| (name.to_vec(), value.into_bytes(), Indexing::Incremental);
        match self {
            Field::Status(status) => {
                let code = match status {
                    Status::Ok => "200",
                    Status::NoContent => "204",
                    Status::NotModified => "304",
                    Status::Continue => "100",
                    Status::EarlyHints => "103",
                    Status::SwitchingProtocols => "101",
                    Status::Wrong => "20",
                };
                plain(b":status", code.to_owned())
            }
            Field::Length(length) => plain(b"content-length", length.to_string()),
            Field::Ordinary(value, true) => plain(b"x-name", value.to_string()),
            Field::Ordinary(value, false) => {
                let (name, value, _) = plain(b"x-name", value.to_string());
                (name, value, Indexing::Never)
            }
            Field::Long(length) => plain(b"x-long", "l".repeat(length.into())),
            Field::UpperCase => plain(b"X-Upper", String::new()),
            Field::Connection => plain(b"connection", "close".to_owned()),
            Field::Path => plain(b":path", "/".to_owned()),
        }
    }
}
