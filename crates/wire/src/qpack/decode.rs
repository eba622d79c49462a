//! Field sections in (RFC 9204 §4.5).

use super::{integer, table};
use crate::huffman;

/// Why a field section was not decoded to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError<E> {
    /// QPACK_DECOMPRESSION_FAILED: the bytes are not a section of static references and literals.
    Decompression(&'static str),
    /// The section, uncompressed, is larger than the limit (RFC 9114 §4.2.2).
    TooLarge,
    /// The visitor refused a field.
    Field(E),
}

/// Decodes `section` and hands every field to `visit`, in order.
///
/// `limit` bounds the sum of name + value + 32 over the fields, counted before each is handed on.
/// `scratch` holds one field's Huffman-decoded strings and keeps its memory for the next call; it
/// grows to no more than 8/5 of the section, the shortest code having five bits.
pub fn decode<E>(
    section: &[u8],
    limit: u64,
    scratch: &mut Vec<u8>,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), DecodeError<E>> {
    let mut lines = Lines::new(section, limit).map_err(DecodeError::from)?;
    while let Some((name, value)) = lines.next(scratch).map_err(DecodeError::from)? {
        visit(name, value).map_err(DecodeError::Field)?;
    }
    Ok(())
}

/// Why a field line was not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineError {
    Decompression(&'static str),
    TooLarge,
}

impl<E> From<LineError> for DecodeError<E> {
    fn from(error: LineError) -> Self {
        match error {
            LineError::Decompression(reason) => DecodeError::Decompression(reason),
            LineError::TooLarge => DecodeError::TooLarge,
        }
    }
}

/// A name and a value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// The field lines of a section, one by one; see [`decode`].
pub(crate) struct Lines<'a> {
    rest: &'a [u8],
    /// What is left of the limit.
    left: u64,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(section: &'a [u8], limit: u64) -> Result<Self, LineError> {
        let rest = prefix(section).map_err(LineError::Decompression)?;
        Ok(Self { rest, left: limit })
    }

    /// What has not been decoded.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Decodes the next line, if there is one.
    pub(crate) fn next<'b>(
        &mut self,
        scratch: &'b mut Vec<u8>,
    ) -> Result<Option<Pair<'b>>, LineError>
    where
        'a: 'b,
    {
        let Some(&first) = self.rest.first() else {
            return Ok(None);
        };
        scratch.clear();
        let (name, value) =
            line(first, &mut self.rest, scratch).map_err(LineError::Decompression)?;
        let scratch = &*scratch;
        let (name, value) = (name.get(scratch), value.get(scratch));
        self.count(name.len() + value.len())?;
        Ok(Some((name, value)))
    }

    /// Passes over the next line where it has the bytes of `known`, a line whose name and value have
    /// `decoded` bytes, and says whether it has. A line says by itself where it ends, and there is no
    /// table: the same bytes are the same line.
    #[inline]
    pub(crate) fn skip(&mut self, known: &[u8], decoded: usize) -> Result<bool, LineError> {
        let Some(rest) = self.rest.strip_prefix(known) else {
            return Ok(false);
        };
        self.rest = rest;
        self.count(decoded)?;
        Ok(true)
    }

    fn count(&mut self, decoded: usize) -> Result<(), LineError> {
        let left = self.left.checked_sub(decoded as u64 + 32);
        self.left = left.ok_or(LineError::TooLarge)?;
        Ok(())
    }
}

/// The prefix (RFC 9204 §4.5.1). With a table of capacity 0 every Required Insert Count but 0 is
/// an error; a Base means nothing then, but §4.5.1.2 does not let it be negative.
fn prefix(section: &[u8]) -> Result<&[u8], &'static str> {
    // By far the most sections begin with the two zeros that RFC 9204 suggests.
    if let [0, 0, rest @ ..] = section {
        return Ok(rest);
    }
    let mut rest = section;
    let (Some(0), tail) = (integer_8(&mut rest), rest) else {
        return Err("a field section requires dynamic table entries, which were not granted");
    };
    rest = tail;
    let negative = rest.first().is_some_and(|byte| byte & 0x80 != 0);
    match integer::decode(&mut rest, 7) {
        Some(_) if !negative => Ok(rest),
        _ => Err("a field section has a malformed Base"),
    }
}

/// The Required Insert Count fills its byte; only 0 is of interest.
fn integer_8(rest: &mut &[u8]) -> Option<u8> {
    let (&first, tail) = rest.split_first()?;
    *rest = tail;
    Some(first)
}

/// A string, where it lies: in the section (or the static table), or decoded in the scratch buffer.
enum Text<'a> {
    Plain(&'a [u8]),
    Scratch(usize, usize),
}

impl<'a> Text<'a> {
    fn get<'b>(&self, scratch: &'b [u8]) -> &'b [u8]
    where
        'a: 'b,
    {
        match *self {
            Text::Plain(bytes) => bytes,
            Text::Scratch(start, end) => &scratch[start..end],
        }
    }
}

fn line<'a>(
    first: u8,
    rest: &mut &'a [u8],
    scratch: &mut Vec<u8>,
) -> Result<(Text<'a>, Text<'a>), &'static str> {
    const DYNAMIC: &str = "a field line refers to the dynamic table, which was not granted";
    if first & 0x80 != 0 {
        // §4.5.2: indexed field line.
        let index = integer::decode(rest, 6);
        if first & 0x40 == 0 {
            return Err(DYNAMIC);
        }
        let (name, value) = entry(index)?;
        return Ok((Text::Plain(name), Text::Plain(value)));
    }
    let name = if first & 0x40 != 0 {
        // §4.5.4: literal field line with name reference.
        let index = integer::decode(rest, 4);
        if first & 0x10 == 0 {
            return Err(DYNAMIC);
        }
        Text::Plain(entry(index)?.0)
    } else if first & 0x20 != 0 {
        // §4.5.6: literal field line with literal name.
        string(rest, 3, scratch)?
    } else {
        // §4.5.3 and §4.5.5: post-base references.
        return Err(DYNAMIC);
    };
    Ok((name, string(rest, 7, scratch)?))
}

fn entry(index: Option<u64>) -> Result<(&'static [u8], &'static [u8]), &'static str> {
    let index = index.ok_or("a field line is cut short")?;
    let found = usize::try_from(index)
        .ok()
        .and_then(|index| table::TABLE.get(index));
    found
        .copied()
        .ok_or("a field line refers beyond the static table")
}

fn string<'a>(
    rest: &mut &'a [u8],
    prefix: u8,
    scratch: &mut Vec<u8>,
) -> Result<Text<'a>, &'static str> {
    const SHORT: &str = "a string of a field line is cut short";
    let coded = rest.first().is_some_and(|byte| byte >> prefix & 1 == 1);
    let length = integer::decode(rest, prefix).ok_or(SHORT)?;
    if length > rest.len() as u64 {
        return Err(SHORT);
    }
    let (bytes, tail) = rest.split_at(length as usize);
    *rest = tail;
    if !coded {
        return Ok(Text::Plain(bytes));
    }
    let start = scratch.len();
    huffman::decode(bytes, scratch).map_err(|_| "a string of a field line is not Huffman code")?;
    Ok(Text::Scratch(start, scratch.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn run(section: &[u8], limit: u64) -> Result<Pairs, DecodeError<()>> {
        let mut fields = Vec::new();
        decode(section, limit, &mut Vec::new(), |name, value| {
            fields.push((name.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Ok(fields)
    }

    fn fails(section: &[u8]) {
        let result = run(section, 1000);
        assert!(
            matches!(result, Err(DecodeError::Decompression(_))),
            "{section:x?}: {result:?}"
        );
    }

    #[test]
    fn the_example_of_rfc_9204_b_1_is_read() {
        let section = b"\x00\x00\x51\x0b/index.html";
        assert_eq!(
            run(section, 1000).unwrap(),
            [(b":path".to_vec(), b"/index.html".to_vec())]
        );
    }

    #[test]
    fn whatever_needs_the_dynamic_table_fails() {
        fails(&[1, 0, 0xd9]);
        fails(&[0, 0, 0x80]);
        fails(&[0, 0, 0x40, 0]);
        fails(&[0, 0, 0x10]);
        fails(&[0, 0, 0x00, 0]);
    }

    #[test]
    fn a_base_means_nothing_but_is_not_negative() {
        assert_eq!(run(&[0, 5, 0xd9], 1000).unwrap().len(), 1);
        fails(&[0, 0x80, 0xd9]);
        fails(&[0, 0x7f]);
        fails(&[0]);
        fails(&[]);
    }

    #[test]
    fn lines_cut_short_or_beyond_the_table_fail() {
        fails(&[0, 0, 0xff]);
        fails(&[0, 0, 0xff, 36]);
        fails(&[0, 0, 0x51]);
        fails(&[0, 0, 0x51, 2, b'/']);
        fails(&[0, 0, 0x27]);
        fails(&[0, 0, 0x51, 0x81, 0x00]);
    }

    #[test]
    fn the_limit_counts_32_for_each_field() {
        let section = [0, 0, 0xd9, 0xd9];
        let size = 2 * (7 + 3 + 32);
        assert_eq!(run(&section, size).unwrap().len(), 2);
        assert_eq!(run(&section, size - 1), Err(DecodeError::TooLarge));
    }
}
