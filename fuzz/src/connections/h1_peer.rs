//! What a server of HTTP/1.1 writes, in parts that may stand in any order.

use arbitrary::Arbitrary;

use crate::input::Bytes;

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    /// A response that is right, with as much content.
    Response(Framing, u16),
    /// A status line and field lines, without the empty line.
    Head(Status, Bytes<'a>),
    Field(Field),
    EmptyLine,
    Chunk(u16),
    /// The last chunk, with trailers or without, and the empty line.
    LastChunk(bool),
    Content(u16),
    Raw(Bytes<'a>),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Framing {
    Length,
    Chunked,
    UntilClose,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Status {
    Ok,
    Old,
    Continue,
    EarlyHints,
    SwitchingProtocols,
    NoContent,
    NotModified,
    Unavailable,
    Wrong,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Field {
    Length(u8),
    LengthTwice(u8),
    Chunked,
    Gzip,
    Close,
    KeepAlive,
    Ordinary,
    Folded,
    Long(u16),
}

impl Part<'_> {
    /// Appends it to `out`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        match self {
            Part::Response(framing, length) => {
                status_line(Status::Ok, out);
                match framing {
                    Framing::Length => {
                        let line = format!("Content-Length: {length}\r\n\r\n");
                        out.extend_from_slice(line.as_bytes());
                        content(length, out);
                    }
                    Framing::Chunked => {
                        Field::Chunked.write(out);
                        out.extend_from_slice(b"\r\n");
                        if length > 0 {
                            Part::Chunk(length).write(out);
                        }
                        Part::LastChunk(false).write(out);
                    }
                    Framing::UntilClose => {
                        out.extend_from_slice(b"\r\n");
                        content(length, out);
                    }
                }
            }
            Part::Head(status, lines) => {
                status_line(status, out);
                for &line in lines.0 {
                    let field = [
                        Field::Length(line),
                        Field::Ordinary,
                        Field::KeepAlive,
                        Field::Close,
                        Field::Folded,
                    ];
                    field[usize::from(line % 5)].write(out);
                }
            }
            Part::Field(field) => field.write(out),
            Part::EmptyLine => out.extend_from_slice(b"\r\n"),
            Part::Chunk(length) => {
                out.extend_from_slice(format!("{length:x}\r\n").as_bytes());
                content(length, out);
                out.extend_from_slice(b"\r\n");
            }
            Part::LastChunk(trailers) => {
                out.extend_from_slice(b"0\r\n");
                if trailers {
                    Field::Ordinary.write(out);
                }
                out.extend_from_slice(b"\r\n");
            }
            Part::Content(length) => content(length, out),
            Part::Raw(bytes) => out.extend_from_slice(bytes.0),
        }
    }
}

impl Field {
    fn write(self, out: &mut Vec<u8>) {
        let line = match self {
            Field::Length(length) => format!("Content-Length: {length}\r\n"),
            Field::LengthTwice(length) => format!("content-length: {length}, {length}\r\n"),
            Field::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
            Field::Gzip => "Transfer-Encoding: gzip\r\n".to_owned(),
            Field::Close => "Connection: close\r\n".to_owned(),
            Field::KeepAlive => "Connection: keep-alive\r\n".to_owned(),
            Field::Ordinary => "Server: fuzz\r\n".to_owned(),
            Field::Folded => "X-Folded: one\r\n two\r\n".to_owned(),
            Field::Long(length) => format!("X-Long: {}\r\n", "l".repeat(length.into())),
        };
        out.extend_from_slice(line.as_bytes());
    }
}

fn status_line(status: Status, out: &mut Vec<u8>) {
    let line: &[u8] = match status {
        Status::Ok => b"HTTP/1.1 200 OK\r\n",
        Status::Old => b"HTTP/1.0 200 OK\r\n",
        Status::Continue => b"HTTP/1.1 100 Continue\r\n",
        Status::EarlyHints => b"HTTP/1.1 103 Early Hints\r\n",
        Status::SwitchingProtocols => b"HTTP/1.1 101 Switching Protocols\r\n",
        Status::NoContent => b"HTTP/1.1 204 No Content\r\n",
        Status::NotModified => b"HTTP/1.1 304 Not Modified\r\n",
        Status::Unavailable => b"HTTP/1.1 503 \r\n",
        Status::Wrong => b"HTTP/3 099\r\n",
    };
    out.extend_from_slice(line);
}

fn content(length: u16, out: &mut Vec<u8>) {
    out.extend((0..length).map(|at| at as u8));
}
