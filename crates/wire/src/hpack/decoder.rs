//! From blocks to fields.

use std::fmt;

use super::role::Role;
use super::static_table::STATIC;
use super::table::Table;
use super::{DEFAULT_TABLE_SIZE, integer};
use crate::huffman;

/// The receiving end: decodes the blocks of one direction of a connection, in their order.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// The largest size that the peer may give the table.
    limit: usize,
    /// The limit went below the size of the table: the next block must begin with an update.
    update_due: bool,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// A block that cannot be decoded. The tables are out of step: the connection must end with
/// COMPRESSION_ERROR (RFC 9113 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// An integer is cut off or too large.
    Integer,
    /// A string is cut off.
    String,
    /// A string is not a Huffman code.
    Huffman,
    /// An index of no entry.
    Index,
    /// A table size update behind a field, or above the limit.
    TableSize,
    /// No table size update although the limit went below the size of the table.
    MissingUpdate,
}

impl Decoder {
    /// A decoder whose peer may use a table of `limit` bytes, and of the default size before it has
    /// heard of the limit: tell [`Self::set_limit`] when it has.
    pub fn new(limit: u32) -> Self {
        Self {
            table: Table::new(DEFAULT_TABLE_SIZE as usize),
            limit: limit.max(DEFAULT_TABLE_SIZE) as usize,
            update_due: false,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// The peer has acknowledged a SETTINGS_HEADER_TABLE_SIZE of `limit` bytes (RFC 7541 §4.2).
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit as usize;
        self.update_due = self.table.max_size() > self.limit;
    }

    /// Decodes one complete block and hands each field to `field`, in order.
    pub fn decode(
        &mut self,
        block: &[u8],
        mut field: impl FnMut(&[u8], &[u8], Role),
    ) -> Result<(), Error> {
        let mut input = block;
        let mut at_start = true;
        while let Some(&first) = input.first() {
            if first & 0xe0 == 0x20 {
                let size = integer::decode(&mut input, 5).ok_or(Error::Integer)?;
                if !at_start || size > self.limit {
                    return Err(Error::TableSize);
                }
                self.table.resize(size);
                self.update_due = false;
                continue;
            }
            if self.update_due {
                return Err(Error::MissingUpdate);
            }
            at_start = false;
            if first & 0x80 != 0 {
                let index = integer::decode(&mut input, 7).ok_or(Error::Integer)?;
                let (name, value, role) = entry(&self.table, index)?;
                field(name, value, role);
            } else {
                let insert = first & 0x40 != 0;
                let index = integer::decode(&mut input, if insert { 6 } else { 4 });
                let index = index.ok_or(Error::Integer)?;
                let name = if index == 0 {
                    string(&mut input, &mut self.name)?
                } else if let Some(&(name, _)) = STATIC.get(index - 1) {
                    name
                } else {
                    // The insertion may evict the entry that the name is from.
                    self.name.clear();
                    self.name.extend_from_slice(entry(&self.table, index)?.0);
                    &self.name
                };
                let value = string(&mut input, &mut self.value)?;
                let role = Role::of(name, value);
                if insert {
                    self.table.insert(name, value, role);
                }
                field(name, value, role);
            }
        }
        Ok(())
    }

    /// A number that changes whenever the table does: while it stays, equal blocks mean equal
    /// fields.
    pub fn generation(&self) -> u64 {
        self.table.generation()
    }
}

#[inline]
fn entry(table: &Table, index: usize) -> Result<(&[u8], &[u8], Role), Error> {
    let position = index.checked_sub(1).ok_or(Error::Index)?;
    match STATIC.get(position) {
        Some((name, value)) => Ok((name, value, Role::of_static(position))),
        None => table.get(position - STATIC.len()).ok_or(Error::Index),
    }
}

/// Takes a string literal (RFC 7541 §5.2); `buffer` holds it where it was compressed.
fn string<'block: 'a, 'a>(
    input: &mut &'block [u8],
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], Error> {
    let compressed = input.first().ok_or(Error::String)? & 0x80 != 0;
    let length = integer::decode(input, 7).ok_or(Error::Integer)?;
    let (string, rest) = input.split_at_checked(length).ok_or(Error::String)?;
    *input = rest;
    if !compressed {
        return Ok(string);
    }
    buffer.clear();
    huffman::decode(string, buffer).map_err(|_| Error::Huffman)?;
    Ok(buffer)
}

impl Error {
    /// What happened, in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Integer => "an integer in a header block is cut off or too large",
            Self::String => "a string in a header block is cut off",
            Self::Huffman => "a string in a header block is not a Huffman code",
            Self::Index => "a header block names an entry that no table has",
            Self::TableSize => "a table size update in a header block is late or above the limit",
            Self::MissingUpdate => "a header block lacks the table size update that was due",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Error {}
