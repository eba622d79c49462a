//! What a field says in a response, found once for each entry of a table.

use super::static_table::STATIC;
use crate::field;

/// The part that a field of a response plays for the protocol itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// None.
    Plain,
    /// `:status`.
    Status(u16),
    /// `content-length`, in bytes.
    Length(u64),
    /// The field makes a response malformed (RFC 9113 §8.2.1, §8.2.2, §8.3), for this reason.
    Malformed(&'static str),
}

impl Role {
    /// The part that a field plays.
    pub fn of(name: &[u8], value: &[u8]) -> Self {
        if name.first() == Some(&b':') {
            return match (name, value) {
                (b":status", [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']) => {
                    let digit = |byte: &u8| u16::from(byte - b'0');
                    Self::Status(100 * digit(a) + 10 * digit(b) + digit(c))
                }
                (b":status", _) => Self::Malformed(":status is not three digits"),
                _ => Self::Malformed("a pseudo-field that responses do not have"),
            };
        }
        if name.is_empty() || !name.iter().all(|&byte| is_lowercase_token(byte)) {
            return Self::Malformed("a field name is not a token in lower case");
        }
        let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        if value
            .iter()
            .any(|byte| matches!(byte, b'\0' | b'\r' | b'\n'))
            || blank(value.first())
            || blank(value.last())
        {
            return Self::Malformed("a field value has a line break, NUL or blanks around it");
        }
        if name == b"content-length" {
            return field::parse_content_length(value).map_or(
                Self::Malformed("content-length is not a number"),
                Self::Length,
            );
        }
        if field::is_connection_specific(name) {
            return Self::Malformed("a field that belongs to HTTP/1.1 connections");
        }
        Self::Plain
    }

    /// The part that the static entry at `position` plays.
    #[inline]
    pub(super) fn of_static(position: usize) -> Self {
        match position {
            7 => Self::Status(200),
            14..=26 | 28..=55 | 57..=60 => Self::Plain,
            _ => STATIC
                .get(position)
                .map_or(Self::Plain, |(name, value)| Self::of(name, value)),
        }
    }
}

const fn is_lowercase_token(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = field::is_token(byte as u8) && !(byte as u8).is_ascii_uppercase();
            byte += 1;
        }
        table
    };
    TABLE[byte as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_static_shortcut_agrees_with_the_rule() {
        for (position, (name, value)) in STATIC.iter().enumerate() {
            assert_eq!(
                Role::of_static(position),
                Role::of(name, value),
                "{position}"
            );
        }
    }

    #[test]
    fn fields_are_told_apart() {
        assert_eq!(Role::of(b":status", b"418"), Role::Status(418));
        assert_eq!(Role::of(b"content-length", b"11"), Role::Length(11));
        assert_eq!(Role::of(b"x", b"a b\xff"), Role::Plain);
        let malformed: [(&[u8], &[u8]); 13] = [
            (b":status", b"99"),
            (b":status", b"099"),
            (b":status", b"2000"),
            (b":status", b"2x0"),
            (b":path", b"/"),
            (b"", b"x"),
            (b"Server", b"x"),
            (b"a b", b"x"),
            (b"x", b"a\nb"),
            (b"x", b" a"),
            (b"x", b"a\t"),
            (b"content-length", b"1x"),
            (b"transfer-encoding", b"chunked"),
        ];
        for (name, value) in malformed {
            assert!(
                matches!(Role::of(name, value), Role::Malformed(_)),
                "{name:?}: {value:?}"
            );
        }
    }
}
