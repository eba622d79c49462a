//! What holds for any fields and any bytes.

use proptest::prelude::*;
use trilane_wire::hpack::{Decoder, Encoder};

use super::generate::Random;

#[test]
fn what_is_encoded_is_decoded_whatever_the_table_sizes() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        for _ in 0..30 {
            for _ in 0..random.below(3) {
                let size = random.table_size();
                encoder.set_limit(size);
                decoder.set_limit(size);
            }
            let section = random.section();
            let mut block = Vec::new();
            encoder.encode(
                section.iter().map(|(n, v, i)| (&n[..], &v[..], *i)),
                &mut block,
            );
            let mut fields = section.iter();
            let decoded = decoder.decode(&block, |name, value, _| {
                let (n, v, _) = fields.next().unwrap();
                assert_eq!((name, value), (&n[..], &v[..]), "seed {seed}");
            });
            assert_eq!(decoded, Ok(()), "seed {seed}");
            assert!(fields.next().is_none());
        }
    }
}

#[test]
fn a_block_that_leaves_the_generation_alone_can_be_sent_again() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        let section = random.section();
        let mut kept: Option<(u64, Vec<u8>)> = None;
        for _ in 0..40 {
            if random.below(8) == 0 {
                let size = random.table_size();
                encoder.set_limit(size);
                decoder.set_limit(size);
            }
            if random.below(4) == 0 {
                let other = random.section();
                let mut block = Vec::new();
                encoder.encode(
                    other.iter().map(|(n, v, i)| (&n[..], &v[..], *i)),
                    &mut block,
                );
                decoder.decode(&block, |_, _, _| ()).unwrap();
            }
            let before = encoder.generation();
            let block = match &kept {
                Some((generation, block)) if *generation == before => block.clone(),
                _ => {
                    let mut block = Vec::new();
                    let fields = section.iter().map(|(n, v, i)| (&n[..], &v[..], *i));
                    encoder.encode(fields, &mut block);
                    kept = (encoder.generation() == before).then(|| (before, block.clone()));
                    block
                }
            };
            let mut fields = section.iter();
            decoder
                .decode(&block, |name, value, _| {
                    let (n, v, _) = fields.next().unwrap();
                    assert_eq!((name, value), (&n[..], &v[..]), "seed {seed}");
                })
                .unwrap();
            assert!(fields.next().is_none());
        }
    }
}

proptest! {
    #[test]
    fn any_block_is_decoded_or_refused(blocks in proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 0..100), 1..10)
    ) {
        let mut decoder = Decoder::new(4096);
        for block in blocks {
            let mut bytes = 0;
            let result = decoder.decode(&block, |name, value, _| bytes += name.len() + value.len());
            // No field is larger than the table or, in its densest code, 8/5 of the block.
            prop_assert!(bytes <= block.len() * 4096);
            if result.is_err() {
                break;
            }
        }
    }
}
