//! The dynamic table (RFC 7541 §2.3.2, §4).

use std::collections::VecDeque;

use super::ENTRY_OVERHEAD;
use super::role::Role;

/// Names and values of all entries in one buffer, oldest first. Evicted bytes stay at its front
/// until the buffer is full and then are moved over, so that a table in use allocates nothing.
#[derive(Debug)]
pub(super) struct Table {
    bytes: Vec<u8>,
    entries: VecDeque<Entry>,
    size: usize,
    max_size: usize,
    generation: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    name_len: usize,
    value_len: usize,
    role: Role,
}

impl Table {
    pub(super) fn new(max_size: usize) -> Self {
        Self {
            bytes: Vec::new(),
            entries: VecDeque::new(),
            size: 0,
            max_size,
            generation: 0,
        }
    }

    /// Changes the size, and evicts what no longer fits.
    pub(super) fn resize(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.generation += 1;
        self.evict(max_size);
    }

    /// Adds an entry and evicts what no longer fits. An entry larger than the table empties it
    /// (RFC 7541 §4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], role: Role) {
        self.generation += 1;
        let bytes = name.len() + value.len();
        let size = bytes + ENTRY_OVERHEAD;
        self.evict(self.max_size.saturating_sub(size));
        if size > self.max_size {
            return;
        }
        if self.bytes.len() + bytes > self.bytes.capacity() {
            self.compact();
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push_back(Entry {
            start,
            name_len: name.len(),
            value_len: value.len(),
            role,
        });
        self.size += size;
    }

    /// The most that the entries may take, in bytes.
    pub(super) fn max_size(&self) -> usize {
        self.max_size
    }

    /// A number that changes whenever the table does.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The entry `age`, 0 being the newest.
    #[inline]
    pub(super) fn get(&self, age: usize) -> Option<(&[u8], &[u8], Role)> {
        let entry = self.entries.get(self.entries.len().checked_sub(age + 1)?)?;
        let (name, value) = self.pair(entry);
        Some((name, value, entry.role))
    }

    /// Name and value of each entry, newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().rev().map(|entry| self.pair(entry))
    }

    fn pair(&self, entry: &Entry) -> (&[u8], &[u8]) {
        self.bytes[entry.start..][..entry.name_len + entry.value_len].split_at(entry.name_len)
    }

    fn evict(&mut self, target: usize) {
        while self.size > target
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.name_len + entry.value_len + ENTRY_OVERHEAD;
        }
    }

    /// Moves the live bytes to the front, once at least half of the bytes are dead: so each byte is
    /// moved once at most for each byte that is added.
    fn compact(&mut self) {
        let dead = self
            .entries
            .front()
            .map_or(self.bytes.len(), |oldest| oldest.start);
        if dead < self.bytes.len() - dead {
            return;
        }
        self.bytes.copy_within(dead.., 0);
        self.bytes.truncate(self.bytes.len() - dead);
        for entry in &mut self.entries {
            entry.start -= dead;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_leave_first() {
        let mut table = Table::new(3 * (ENTRY_OVERHEAD + 2));
        for value in [b"1", b"2", b"3", b"4"] {
            table.insert(b"n", value, Role::Plain);
        }
        let values: Vec<_> = table.iter().map(|(_, value)| value[0]).collect();
        assert_eq!(values, b"432");
        table.resize(ENTRY_OVERHEAD + 2);
        assert_eq!(table.get(0).map(|(_, value, _)| value), Some(&b"4"[..]));
        assert!(table.get(1).is_none());
    }

    #[test]
    fn an_entry_larger_than_the_table_empties_it() {
        let mut table = Table::new(64);
        table.insert(b"a", b"b", Role::Plain);
        table.insert(&[b'a'; 33], b"", Role::Plain);
        assert!(table.get(0).is_none());
        assert_eq!(table.size, 0);
    }

    #[test]
    fn a_table_in_use_keeps_its_memory() {
        let mut table = Table::new(4096);
        let mut capacity = 0;
        for round in 0..100_000u32 {
            table.insert(b"date", &round.to_be_bytes(), Role::Plain);
            if round == 10_000 {
                capacity = table.bytes.capacity();
            }
            assert_eq!(
                table.get(0).map(|(_, value, _)| value),
                Some(&round.to_be_bytes()[..])
            );
        }
        assert_eq!(table.bytes.capacity(), capacity);
        assert!(capacity <= 4 * 4096);
    }
}
