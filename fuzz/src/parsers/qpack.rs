//! Field sections: within the limit whatever they say, and the same after another round.

use trilane_wire::FieldList;
use trilane_wire::qpack::{DecodeError, DecoderStream, EncoderStream, decode, encode};
use trilane_wire::request::Indexing;

const LIMIT: u64 = 10_000;

fn fields(section: &[u8]) -> Result<FieldList, DecodeError<()>> {
    let mut fields = FieldList::new();
    let mut size = 0;
    decode(section, LIMIT, &mut Vec::new(), |name, value| {
        size += name.len() as u64 + value.len() as u64 + 32;
        assert!(size <= LIMIT);
        fields.push(name, value);
        Ok(())
    })?;
    Ok(fields)
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    if let Ok(decoded) = fields(data) {
        let ways = [Indexing::Incremental, Indexing::Without, Indexing::Never];
        let marked = decoded
            .iter()
            .zip(ways.into_iter().cycle())
            .map(|((n, v), way)| (n, v, way));
        let mut again = Vec::new();
        encode(marked, &mut again);
        assert_eq!(fields(&again), Ok(decoded));
    }

    let (mut whole, mut cut) = (DecoderStream::default(), DecoderStream::default());
    let bytewise = data.chunks(1).try_for_each(|byte| cut.receive(byte));
    assert_eq!(whole.receive(data), bytewise);
    let _ = EncoderStream::default().receive(data);
}
