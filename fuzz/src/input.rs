//! What operations are made of.

use arbitrary::{Arbitrary, Result, Unstructured};
use trilane_wire::StreamId;

/// A few bytes of the input, their number before them: a change inside moves nothing behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Arbitrary<'a> for Bytes<'a> {
    fn arbitrary(input: &mut Unstructured<'a>) -> Result<Self> {
        let length = usize::from(u8::arbitrary(input)?).min(input.len());
        input.bytes(length).map(Self)
    }
}

/// One of the last streams that were opened, ended or not.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Which(u8);

impl Which {
    pub(crate) fn of(self, streams: &[StreamId]) -> Option<StreamId> {
        let recent = &streams[streams.len().saturating_sub(8)..];
        recent
            .iter()
            .rev()
            .cycle()
            .nth(usize::from(self.0))
            .copied()
    }
}

/// Whether to do what little can follow: once in sixteen times, or random inputs would not get far.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Rarely(u8);

impl Rarely {
    pub(crate) fn now(self) -> bool {
        self.0 >= 240
    }
}

/// The sizes of the pieces in which bytes arrive.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Cut(u8);

impl Cut {
    /// All at once.
    pub(crate) const NONE: Self = Self(0);

    /// `bytes` in pieces, none of which is empty.
    pub(crate) fn pieces(self, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        let sizes = match self.0 {
            0 => [usize::MAX, usize::MAX],
            1..64 => [usize::from(self.0), usize::from(self.0)],
            64..128 => [1, usize::from(self.0)],
            _ => [usize::from(self.0) * 16, 3],
        };
        let mut sizes = sizes.into_iter().cycle();
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let size = sizes.next()?.min(rest.len());
            let (piece, behind) = rest.split_at(size);
            rest = behind;
            (!piece.is_empty()).then_some(piece)
        })
    }
}

/// Reads operations until the input is used up.
pub(crate) fn operations<'a, T: Arbitrary<'a>>(input: &mut Unstructured<'a>) -> Vec<T> {
    let mut operations = Vec::new();
    while !input.is_empty()
        && let Ok(operation) = T::arbitrary(input)
    {
        operations.push(operation);
    }
    operations
}
