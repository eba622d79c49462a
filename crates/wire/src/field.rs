//! Fields and field sections (RFC 9110 §5).

use crate::hpack::ENTRY_OVERHEAD;

/// An owned field section: names and values in one buffer, so that it can be cleared and filled
/// again without allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldList {
    bytes: Vec<u8>,
    /// For each field the end of its name and the end of its value in `bytes`.
    ends: Vec<(u32, u32)>,
}

impl FieldList {
    /// An empty section.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a field. Sections are limited far below 4 GiB by every decoder that fills one.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len() as u32));
    }

    /// Appends a field and makes its name lower case.
    pub fn push_lowercase(&mut self, name: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.push(name, value);
        self.bytes[start..start + name.len()].make_ascii_lowercase();
    }

    /// Removes every field and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Name and value of each field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(name_end, value_end)| {
            let name = &self.bytes[start..name_end as usize];
            start = value_end as usize;
            (name, &self.bytes[name_end as usize..start])
        })
    }

    /// Its size as the peer's limit counts it: 32 more for each field (RFC 9113 §6.5.2, RFC 9114
    /// §4.2.2).
    pub fn section_size(&self) -> u64 {
        (self.bytes.len() + self.ends.len() * ENTRY_OVERHEAD) as u64
    }

    /// The section as a cheap reference.
    pub fn as_fields(&self) -> Fields<'_> {
        Fields(Some(self))
    }
}

/// A borrowed field section.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'a>(Option<&'a FieldList>);

impl<'a> Fields<'a> {
    /// A section without fields.
    pub const fn empty() -> Self {
        Fields(None)
    }

    /// Name and value of each field, in order.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.0.into_iter().flat_map(FieldList::iter)
    }

    /// The first value of the field `name`, in any case.
    pub fn first(self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// Whether `byte` may stand in a token (RFC 9110 §5.6.2): methods and field names.
pub const fn is_token(byte: u8) -> bool {
    matches!(byte, b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_'
        | b'`' | b'|' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z')
}

/// Whether `value` is a field value (RFC 9110 §5.5): no control characters but HTAB.
pub fn is_field_value(value: &[u8]) -> bool {
    value
        .iter()
        .all(|&b| b == b'\t' || (b >= 0x20 && b != 0x7f))
}

/// Whether a field is about one HTTP/1.1 connection and must not be sent or accepted in HTTP/2 and
/// HTTP/3 (RFC 9113 §8.2.2, RFC 9114 §4.2). `name` is in lower case.
pub fn is_connection_specific(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade"
    )
}

/// Parses the digits of a `content-length`; `None` where RFC 9110 §8.6 does not allow the value or
/// it exceeds a u64.
pub fn parse_content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |sum, &digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_order_and_duplicates() {
        let mut list = FieldList::new();
        list.push_lowercase(b"Set-Cookie", b"A=1");
        list.push(b"set-cookie", b"");
        list.push(b"x", b"y");
        let seen: Vec<_> = list.iter().collect();
        assert_eq!(
            seen,
            [
                (&b"set-cookie"[..], &b"A=1"[..]),
                (b"set-cookie", b""),
                (b"x", b"y")
            ]
        );
        assert_eq!(list.as_fields().first(b"x"), Some(&b"y"[..]));
    }

    #[test]
    fn content_length_is_digits_within_u64() {
        assert_eq!(parse_content_length(b"0011"), Some(11));
        assert_eq!(
            parse_content_length(b"18446744073709551615"),
            Some(u64::MAX)
        );
        for bad in [
            &b""[..],
            b"18446744073709551616",
            b"+1",
            b"1 ",
            b"0x1",
            b"1,1",
        ] {
            assert_eq!(parse_content_length(bad), None, "{bad:?}");
        }
    }
}
