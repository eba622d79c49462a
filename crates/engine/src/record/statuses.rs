//! Counts by status code as they travel: the codes that occurred, each with its count.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

/// As many as three digits have.
type Counts = [u64; 1000];

pub(super) fn serialize<S: Serializer>(counts: &Counts, serializer: S) -> Result<S::Ok, S::Error> {
    let occurred = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let pairs: Vec<(u16, u64)> = occurred
        .map(|(code, count)| (code as u16, *count))
        .collect();
    pairs.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Box<Counts>, D::Error> {
    let mut counts = Box::new([0; 1000]);
    for (code, count) in Vec::<(u16, u64)>::deserialize(deserializer)? {
        let place = counts.get_mut(usize::from(code));
        *place.ok_or_else(|| D::Error::custom(format!("{code} is no status code")))? = count;
    }
    Ok(counts)
}
