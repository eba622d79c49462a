use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

const SENTENCE: &[u8] = b"the quick brown fox jumps over the lazy dog, ";
/// Forty times `SENTENCE`, as Python's `brotli` and `zstandard` (with a checksum) compress it.
const BROTLI: &str = "1b0707888c946ee622a893a57aeb5f23148d807c430b830d387048206f24bf41a715ce66\
                      c7e34485a560239c4aab3f4c0a0c";
const ZSTD: &str = "28b52ffd640806b50100d40274686520717569636b2062726f776e20666f78206a756d7073\
                    206f76657220746865206c617a7920646f672c200100c516feaa0c01ab274e";
/// 16 MiB of zeros.
const BROTLI_BOMB: &str = "cbffff3ff82700e2b14020f7fe8fffff7ff04f00c4611180eefddf";

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(pair).collect()
}

fn text() -> Vec<u8> {
    SENTENCE.repeat(40)
}

fn noise(size: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..size).map(|_| next()).collect()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zstd(data: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(data, 3).unwrap()
}

fn samples() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("gzip", gzip(&text())),
        ("X-GZip", gzip(&text())),
        ("deflate", zlib(&text())),
        ("deflate", raw_deflate(&text())),
        ("br", bytes(BROTLI)),
        ("zstd", bytes(ZSTD)),
    ]
}

/// Everything that `data` decodes to, given in pieces and taken in portions.
fn decoded(
    codings: &[&str],
    data: &[u8],
    piece: usize,
    portion: Option<usize>,
) -> Result<Vec<u8>, Error> {
    let mut decoder = Decoder::new(codings, None)?;
    let mut output = Vec::new();
    for part in data.chunks(piece) {
        let mut part = part;
        loop {
            let made = decoder.decode(part, portion)?;
            assert!(portion.is_none_or(|most| made.len() <= most));
            if made.is_empty() {
                break;
            }
            output.extend(made);
            part = &[];
        }
    }
    output.extend(decoder.finish()?);
    Ok(output)
}

#[test]
fn every_coding_in_pieces_of_any_size() {
    for (coding, data) in samples() {
        for piece in [1, 2, 3, 7, 64, data.len()] {
            for portion in [None, Some(1), Some(100), Some(1 << 20)] {
                let found = decoded(&[coding], &data, piece, portion).unwrap();
                assert!(found == text(), "{coding} by {piece} into {portion:?}");
            }
        }
    }
}

#[test]
fn large_content() {
    let content = noise(3_000_000);
    for (coding, data) in [
        ("gzip", gzip(&content)),
        ("deflate", raw_deflate(&content)),
        ("zstd", zstd(&content)),
    ] {
        assert!(decoded(&[coding], &data, 16_384, None).unwrap() == content);
        assert!(decoded(&[coding], &data, data.len(), Some(10_000)).unwrap() == content);
    }
}

#[test]
fn codings_are_undone_from_the_last() {
    let data = zstd(&zlib(&gzip(&text())));
    for piece in [1, 10, data.len()] {
        let found = decoded(&["gzip", "deflate", "zstd"], &data, piece, Some(7)).unwrap();
        assert!(found == text());
    }
    assert!(decoded(&["zstd", "deflate", "gzip"], &data, 100, None).is_err());
}

#[test]
fn identity_and_no_codings_pass_through() {
    assert_eq!(decoded(&[], b"as it is", 3, None).unwrap(), b"as it is");
    assert_eq!(
        decoded(&["identity"], b"as it is", 3, Some(1)).unwrap(),
        b"as it is"
    );
}

#[test]
fn members_and_frames_follow_one_another() {
    let parts =
        |encode: fn(&[u8]) -> Vec<u8>| [encode(b"one, "), encode(b""), encode(b"two")].concat();
    for (coding, data) in [("gzip", parts(gzip)), ("zstd", parts(zstd))] {
        for piece in [1, data.len()] {
            assert_eq!(decoded(&[coding], &data, piece, None).unwrap(), b"one, two");
        }
    }
}

#[test]
fn thousands_of_empty_members() {
    let error = decoded(&["gzip"], &gzip(b"").repeat(10_001), 1000, None).unwrap_err();
    assert!(
        error.to_string().contains("thousands of members"),
        "{error}"
    );
    let lines = gzip(SENTENCE).repeat(10_001);
    let found = decoded(&["gzip"], &lines, 1000, None).unwrap();
    assert_eq!(found.len(), 10_001 * SENTENCE.len());
}

#[test]
fn what_follows_the_end_is_passed_over() {
    for (coding, data) in samples() {
        let whole = decoded(&[coding], &data, data.len(), None).unwrap();
        for rest in [&b"\n"[..], &[0; 10], b"garbage", b"\0\x1f\x8b(\x28"] {
            let longer = [&data[..], rest].concat();
            for piece in [1, longer.len()] {
                let found = decoded(&[coding], &longer, piece, None);
                assert_eq!(found.unwrap(), whole, "{coding} and {rest:?}");
            }
        }
        // It has to end, as there is nothing of it that a limit would count.
        let endless = [&data[..], &vec![b'x'; STEP + 1]].concat();
        let error = decoded(&[coding], &endless, 1000, None).unwrap_err();
        assert!(
            error.to_string().contains("too many bytes follow"),
            "{error}"
        );
    }
}

#[test]
fn what_looks_like_another_member_is_read() {
    let longer = [gzip(b"one"), gzip(b"two")[..15].to_vec()].concat();
    let error = decoded(&["gzip"], &longer, 1, None).unwrap_err();
    assert!(error.to_string().contains("cut off"), "{error}");
}

#[test]
fn content_cut_off_anywhere_is_an_error() {
    for (coding, data) in samples() {
        for length in 1..data.len() {
            let error = decoded(&[coding], &data[..length], 16, None).unwrap_err();
            assert!(
                error.to_string().contains("cut off"),
                "{coding} at {length}: {error}"
            );
        }
    }
}

#[test]
fn no_content_at_all_is_no_error() {
    for (coding, _) in samples() {
        assert_eq!(decoded(&[coding], b"", 1, None).unwrap(), b"");
    }
    assert_eq!(decoded(&["gzip", "br"], b"", 1, None).unwrap(), b"");
}

#[test]
fn damage_is_found_or_harmless_and_repeated() {
    for (coding, data) in samples() {
        for at in 0..data.len() {
            let mut damaged = data.clone();
            damaged[at] ^= 0x55;
            // A checksum is only part of gzip, zlib and this zstd frame.
            let outcome = decoded(&[coding], &damaged, 16, None);
            let checked = coding != "br" && data != raw_deflate(&text());
            let names = coding == "gzip" || coding == "X-GZip";
            // Times and systems in gzip's head are not checked by anything.
            if checked && !(names && (4..10).contains(&at)) {
                let same = outcome.as_ref().is_ok_and(|found| *found == text());
                assert!(outcome.is_err() || same, "{coding} at {at}");
            }
        }
    }
    let mut decoder = Decoder::new(&["gzip"], None).unwrap();
    let first = decoder.decode(b"not gzip at all", None).unwrap_err();
    assert_eq!(decoder.decode(&gzip(b"fine"), None).unwrap_err(), first);
    assert_eq!(decoder.finish().unwrap_err(), first);
}

#[test]
fn noise_is_refused_and_nothing_worse() {
    for (coding, data) in samples() {
        for seed in 0..500 {
            let mut noise = noise(seed + 200);
            let start = seed % data.len();
            noise[..start].copy_from_slice(&data[..start]);
            let outcome = decoded(&[coding], &noise, 64, Some(1000));
            assert!(outcome.is_err(), "{coding} with {start} bytes of sense");
        }
    }
}

#[test]
fn the_limit_is_exact() {
    for (coding, data) in samples() {
        let size = text().len() as u64;
        let mut decoder = Decoder::new(&[coding], Some(size)).unwrap();
        assert_eq!(decoder.decode(&data, None).unwrap().len() as u64, size);
        assert_eq!(decoder.finish().unwrap(), b"");
        let mut decoder = Decoder::new(&[coding], Some(size - 1)).unwrap();
        let error = decoder.decode(&data, None).unwrap_err().to_string();
        assert!(
            error.contains("more than the limit of 1799 bytes"),
            "{error}"
        );
    }
}

#[test]
fn bombs_are_refused_early() {
    let zeros = vec![0; 8 << 20];
    let squared = gzip(&gzip(&zeros));
    // A member whose name has no end.
    let named = b"\x1f\x8b\x08\x08\0\0\0\0\0\xff";
    let hollow = zstd(&[&named[..], &vec![b'n'; 8 << 20]].concat());
    for (codings, data) in [
        (vec!["br"], bytes(BROTLI_BOMB)),
        (vec!["gzip"], gzip(&zeros)),
        (vec!["zstd"], zstd(&zeros)),
        (vec!["gzip", "gzip"], squared),
        // Next to nothing comes out at the end: the guard is on every coding.
        (vec!["gzip", "zstd"], hollow),
    ] {
        let mut decoder = Decoder::new(&codings, None).unwrap();
        let error = decoder.decode(&data, None).unwrap_err().to_string();
        assert!(error.contains("decompression bomb"), "{codings:?}: {error}");
        let most = GUARD_FROM.max(1001 * data.len() as u64) + STEP as u64;
        assert!(decoder.links.iter().all(|link| link.produced <= most));
    }
}

#[test]
fn a_portion_bounds_the_work() {
    let zeros = vec![0; 1 << 20];
    let mut decoder = Decoder::new(&["gzip"], None).unwrap();
    assert_eq!(decoder.decode(&gzip(&zeros), Some(10)).unwrap().len(), 10);
    assert_eq!(decoder.links[0].produced, 10);
    assert_eq!(decoder.finish().unwrap().len(), (1 << 20) - 10);
}

#[test]
fn windows_larger_than_the_coding_allows() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(24).unwrap();
    encoder.write_all(&noise(1000)).unwrap();
    let error = decoded(&["zstd"], &encoder.finish().unwrap(), 100, None).unwrap_err();
    assert!(error.to_string().contains("window above 8 MiB"), "{error}");
}

#[test]
fn preset_dictionaries_are_refused() {
    // FDICT set and an identifier (RFC 1950 §2.2).
    let error = decoded(&["deflate"], b"\x78\xbb\x01\x02\x03\x04\x05", 7, None).unwrap_err();
    assert!(error.to_string().contains("preset dictionary"), "{error}");
}

#[test]
fn unknown_and_too_many_codings() {
    let error = Decoder::new(&["gzip", "lzma"], None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"lzma\" is not known"), "{error}");
    let error = Decoder::new(&["gzip"; 6], None).unwrap_err().to_string();
    assert!(error.contains("coded 6 times"), "{error}");
}
