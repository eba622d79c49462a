//! Field sections that look like real ones: names and values that come again, and new ones.

use trilane_wire::request::Indexing;

pub(crate) type Field = (Vec<u8>, Vec<u8>, Indexing);

/// The same numbers for the same seed (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn bytes(&mut self, longest: usize, alphabet: &[u8]) -> Vec<u8> {
        (0..self.below(longest + 1))
            .map(|_| self.pick(alphabet))
            .collect()
    }

    /// A table size: the edges, and everything between.
    pub(crate) fn table_size(&mut self) -> u32 {
        let between = self.below(5000) as u32;
        self.pick(&[0, 1, 31, 32, 64, 100, between, 4095, 4096, 4097, 16_384])
    }

    pub(crate) fn section(&mut self) -> Vec<Field> {
        (0..self.below(12)).map(|_| self.field()).collect()
    }

    fn field(&mut self) -> Field {
        const KNOWN: [(&str, &str); 8] = [
            (":method", "GET"),
            (":path", "/"),
            (":status", "304"),
            ("accept-encoding", "gzip, deflate"),
            ("content-length", "11"),
            ("www-authenticate", ""),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("x-custom", "custom"),
        ];
        let (name, value) = self.pick(&KNOWN);
        let all: Vec<u8> = (0..=255).collect();
        let alphabet = self.pick(&[&b"abc-"[..], b"0123456789", b"\\{}<>", &all]);
        let name = match self.below(4) {
            0 => self.bytes(40, b"abcdefgh-"),
            _ => name.as_bytes().to_vec(),
        };
        let value = match self.below(5) {
            0 => self.bytes(300, alphabet),
            1 => self.bytes(3000, alphabet),
            2 => vec![b'a' + self.below(6) as u8],
            _ => value.as_bytes().to_vec(),
        };
        // Python's decoder takes no empty names.
        let name = if name.is_empty() { b"x".to_vec() } else { name };
        let indexing = self.pick(&[
            Indexing::Incremental,
            Indexing::Incremental,
            Indexing::Without,
            Indexing::Never,
        ]);
        (name, value, indexing)
    }
}
