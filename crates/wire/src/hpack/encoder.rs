//! From fields to blocks.

use super::role::Role;
use super::static_table::{self, Found, STATIC};
use super::table::Table;
use super::{DEFAULT_TABLE_SIZE, ENTRY_OVERHEAD, integer};
use crate::huffman;
use crate::request::Indexing;

/// The sending end: encodes the blocks of one direction of a connection, in their order.
///
/// The table is never larger than [`DEFAULT_TABLE_SIZE`], whatever the peer offers: requests are
/// small, and every byte of it is memory of the peer's.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    /// The smallest size since the last block, where an update is due (RFC 7541 §4.2).
    update: Option<usize>,
    updates: u64,
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            table: Table::new(DEFAULT_TABLE_SIZE as usize),
            update: None,
            updates: 0,
        }
    }
}

impl Encoder {
    /// An encoder with an empty table of the default size.
    pub fn new() -> Self {
        Self::default()
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE is `limit` bytes.
    pub fn set_limit(&mut self, limit: u32) {
        let size = limit.min(DEFAULT_TABLE_SIZE) as usize;
        if size != self.table.max_size() {
            self.table.resize(size);
            self.update = Some(self.update.map_or(size, |smallest| smallest.min(size)));
        }
    }

    /// Appends a block with `fields`, whose names are in lower case, to `out`.
    pub fn encode<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8], Indexing)>,
        out: &mut Vec<u8>,
    ) {
        if let Some(smallest) = self.update.take() {
            self.updates += 1;
            let size = self.table.max_size();
            if smallest < size {
                integer::encode(smallest, 5, 0x20, out);
            }
            integer::encode(size, 5, 0x20, out);
        }
        for (name, value, indexing) in fields {
            self.field(name, value, indexing, out);
        }
    }

    /// A number that changes whenever the table does and when an update of its size is sent. A block
    /// that did not change it may be sent again for the same fields, as long as it stays.
    pub fn generation(&self) -> u64 {
        self.table.generation() + self.updates
    }

    fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        let (both, named) = self.find(name, value);
        if let Some(index) = both
            && indexing != Indexing::Never
        {
            integer::encode(index, 7, 0x80, out);
            return;
        }
        // An entry that would push out most of the others is not worth it.
        let size = name.len() + value.len() + ENTRY_OVERHEAD;
        let insert = indexing == Indexing::Incremental && size <= self.table.max_size() / 4 * 3;
        let (prefix, pattern) = match indexing {
            _ if insert => (6, 0x40),
            Indexing::Never => NEVER_INDEXED,
            Indexing::Incremental | Indexing::Without => WITHOUT_INDEXING,
        };
        begin_literal(named, name, prefix, pattern, out);
        string(value, out);
        if insert {
            self.table.insert(name, value, Role::Plain);
        }
    }

    /// The index of the field, and that of its name.
    fn find(&self, name: &[u8], value: &[u8]) -> (Option<usize>, Option<usize>) {
        let mut named = match static_table::find(name, value) {
            Found::Both(index) => return (Some(index), Some(index)),
            Found::Name(index) => Some(index),
            Found::Nothing => None,
        };
        for (index, (n, v)) in (STATIC.len() + 1..).zip(self.table.iter()) {
            if n == name {
                if v == value {
                    return (Some(index), named.or(Some(index)));
                }
                named = named.or(Some(index));
            }
        }
        (None, named)
    }
}

/// Bits of the index and pattern of a literal without indexing (RFC 7541 §6.2.2).
const WITHOUT_INDEXING: (u32, u8) = (4, 0x00);
/// The same of a literal that is never indexed (§6.2.3).
const NEVER_INDEXED: (u32, u8) = (4, 0x10);

/// Appends a field that neither enters the dynamic table nor is looked for in it: its bytes are right
/// in any block of any connection. [`Indexing::Incremental`] is as good as without.
pub(crate) fn encode_without_table(
    name: &[u8],
    value: &[u8],
    indexing: Indexing,
    out: &mut Vec<u8>,
) {
    match static_table::find(name, value) {
        Found::Both(index) if indexing != Indexing::Never => integer::encode(index, 7, 0x80, out),
        _ => {
            begin_without_table(name, indexing, out);
            string(value, out);
        }
    }
}

/// Appends what comes before the value (a [`string`]) of a literal that does not enter the dynamic table.
pub(crate) fn begin_without_table(name: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
    let named = match static_table::find(name, b"") {
        Found::Both(index) | Found::Name(index) => Some(index),
        Found::Nothing => None,
    };
    let (prefix, pattern) = match indexing {
        Indexing::Never => NEVER_INDEXED,
        Indexing::Incremental | Indexing::Without => WITHOUT_INDEXING,
    };
    begin_literal(named, name, prefix, pattern, out);
}

/// Appends what comes before the value of a literal (RFC 7541 §6.2), whose name stands in a table at `named`.
fn begin_literal(named: Option<usize>, name: &[u8], prefix: u32, pattern: u8, out: &mut Vec<u8>) {
    integer::encode(named.unwrap_or(0), prefix, pattern, out);
    if named.is_none() {
        string(name, out);
    }
}

/// The length of a string literal below this is told by one byte.
const SHORT: usize = 0x7f;

/// Appends a string literal (RFC 7541 §5.2), compressed where that is shorter.
pub(crate) fn string(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.len() < SHORT {
        // Compressed before its length is known: to look at each byte twice would cost more.
        let start = out.len();
        out.push(0);
        huffman::encode(bytes, out);
        let compressed = out.len() - start - 1;
        if compressed < bytes.len() {
            out[start] = 0x80 | compressed as u8;
        } else {
            out.truncate(start);
            out.push(bytes.len() as u8);
            out.extend_from_slice(bytes);
        }
        return;
    }
    let compressed = huffman::encoded_len(bytes);
    if compressed < bytes.len() {
        integer::encode(compressed, 7, 0x80, out);
        huffman::encode(bytes, out);
    } else {
        integer::encode(bytes.len(), 7, 0x00, out);
        out.extend_from_slice(bytes);
    }
}
