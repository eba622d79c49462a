//! The codings themselves: each a library's stream decoder behind one shape.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use super::unusable;
use crate::Error;

/// The largest window of deflate and gzip, as a power of two.
const DEFLATE_WINDOW: u8 = 15;
/// RFC 9659 §3: a decoder of the content coding needs no window above 8 MiB.
const ZSTD_WINDOW: u32 = 23;

/// What each member of gzip begins with (RFC 1952 §2.3.1).
const GZIP: u8 = 0x1f;
/// Members of gzip that may be of any size. A member of 20 bytes costs as much to begin as 10 KiB cost
/// to decode, so many of them would have to hold something.
const FREE_MEMBERS: u64 = 10_000;
/// Bytes that they would have to hold on average.
const SMALL_MEMBER: u64 = 32;

type Brotli = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;
/// Bytes used and bytes made, or what is wrong with the input.
type Step = Result<(usize, usize), &'static str>;

/// A decoder of one coding.
pub(super) enum Stage {
    /// Members one after another (RFC 1952 §2.2).
    Gzip(Gunzip),
    /// RFC 9110 §8.4.1.2 means the zlib format; some servers send deflate without it.
    Deflate { inflate: Inflate },
    /// RFC 7932; boxed because its state is large.
    Brotli { state: Box<Brotli>, ended: bool },
    /// Frames one after another (RFC 8878 §3).
    Zstd {
        decoder: ZstdDecoder<'static>,
        ended: bool,
        /// Something else follows them.
        over: bool,
    },
}

/// A decoder of gzip.
pub(super) struct Gunzip {
    member: Member,
    members: u64,
    made: u64,
}

/// Where a gzip decoder is.
enum Member {
    Inside(Decompress),
    Between,
    /// Something else follows the last member.
    Over,
}

/// Where a deflate decoder is.
pub(super) enum Inflate {
    /// One byte does not yet tell the two formats apart.
    Unknown(Option<u8>),
    Inside(Decompress),
    Ended,
}

impl Stage {
    pub(super) fn named(name: &str) -> Result<Self, Error> {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "gzip" | "x-gzip" => Ok(Self::Gzip(Gunzip {
                member: Member::Between,
                members: 0,
                made: 0,
            })),
            "deflate" => Ok(Self::Deflate {
                inflate: Inflate::Unknown(None),
            }),
            "br" => {
                let memory = StandardAlloc::default;
                Ok(Self::Brotli {
                    // Strict: windows above 16 MiB are not part of the content coding.
                    state: Box::new(Brotli::new_strict(memory(), memory(), memory())),
                    ended: false,
                })
            }
            "zstd" => zstd_decoder()
                .map_err(|error| unusable(format!("a zstd decoder cannot be made: {error}"))),
            _ => Err(unusable(format!(
                "the content coding {name:?} is not known: gzip, x-gzip, deflate, br and zstd are"
            ))),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Gzip(_) => "gzip",
            Self::Deflate { .. } => "deflate",
            Self::Brotli { .. } => "br",
            Self::Zstd { .. } => "zstd",
        }
    }

    /// Whether the content may end here.
    pub(super) fn ended(&self) -> bool {
        match self {
            Self::Gzip(gunzip) => !matches!(gunzip.member, Member::Inside(_)),
            Self::Deflate { inflate } => matches!(inflate, Inflate::Ended),
            Self::Brotli { ended, .. } | Self::Zstd { ended, .. } => *ended,
        }
    }

    /// Decodes a part of `input` into `output`, which has room. Nothing is used of what follows the end.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        match self {
            Self::Gzip(gunzip) => gunzip.step(input, output),
            Self::Deflate { inflate } => deflated(inflate, input, output),
            Self::Brotli { ended: true, .. } => Ok((0, 0)),
            Self::Brotli { state, ended } => unbrotli(state, ended, input, output),
            Self::Zstd {
                decoder,
                ended,
                over,
            } => {
                *over = *over || (*ended && !input.is_empty() && !begins_zstd_frame(input[0]));
                if *over {
                    return Ok((0, 0));
                }
                unzstd(decoder, ended, input, output)
            }
        }
    }
}

fn zstd_decoder() -> std::io::Result<Stage> {
    let mut decoder = ZstdDecoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW))?;
    Ok(Stage::Zstd {
        decoder,
        ended: false,
        over: false,
    })
}

/// Whether a frame, or one to be skipped, may begin so (RFC 8878 §3.1).
fn begins_zstd_frame(byte: u8) -> bool {
    byte == 0x28 || byte & 0xf0 == 0x50
}

impl Gunzip {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        match &mut self.member {
            Member::Inside(inflate) => {
                let (used, made, ended) = inflated(inflate, input, output)?;
                self.made += made as u64;
                if ended {
                    self.member = Member::Between;
                }
                Ok((used, made))
            }
            Member::Between if input.is_empty() => Ok((0, 0)),
            Member::Between if input[0] != GZIP && self.members > 0 => {
                self.member = Member::Over;
                Ok((0, 0))
            }
            Member::Between => {
                self.members += 1;
                if self.members > FREE_MEMBERS && self.made / self.members < SMALL_MEMBER {
                    return Err("it has thousands of members with next to nothing in them");
                }
                self.member = Member::Inside(Decompress::new_gzip(DEFLATE_WINDOW));
                self.step(input, output)
            }
            Member::Over => Ok((0, 0)),
        }
    }
}

fn deflated(inflate: &mut Inflate, input: &[u8], output: &mut [u8]) -> Step {
    match inflate {
        Inflate::Unknown(first) => {
            let held = first.is_some();
            let mut start = [first.unwrap_or_default(), 0];
            let need = 2 - usize::from(held);
            if input.len() < need {
                *first = first.or(input.first().copied());
                return Ok((input.len(), 0));
            }
            start[usize::from(held)..].copy_from_slice(&input[..need]);
            let mut decoder = Decompress::new(is_zlib(start));
            let (_, made, ended) = inflated(&mut decoder, &start, output)?;
            *inflate = if ended {
                Inflate::Ended
            } else {
                Inflate::Inside(decoder)
            };
            Ok((need, made))
        }
        Inflate::Inside(decoder) => {
            let (used, made, ended) = inflated(decoder, input, output)?;
            if ended {
                *inflate = Inflate::Ended;
            }
            Ok((used, made))
        }
        Inflate::Ended => Ok((0, 0)),
    }
}

/// Whether a zlib header (RFC 1950 §2.2) starts so. Deflate alone would have to start with a stored
/// block whose padding bits are set, which no encoder writes.
fn is_zlib([method, flags]: [u8; 2]) -> bool {
    method & 0x0f == 8 && method >> 4 <= 7 && u16::from_be_bytes([method, flags]).is_multiple_of(31)
}

/// Bytes used, bytes made, and whether the stream has ended.
fn inflated(
    inflate: &mut Decompress,
    input: &[u8],
    output: &mut [u8],
) -> Result<(usize, usize, bool), &'static str> {
    let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
    let status = inflate
        .decompress(input, output, FlushDecompress::None)
        .map_err(|error| reason(&error))?;
    Ok((
        (inflate.total_in() - before_in) as usize,
        (inflate.total_out() - before_out) as usize,
        status == Status::StreamEnd,
    ))
}

fn reason(error: &flate2::DecompressError) -> &'static str {
    if error.needs_dictionary().is_some() {
        return "it needs a preset dictionary, which HTTP does not have";
    }
    match error.message() {
        Some("incorrect header check") => "incorrect header check",
        Some("incorrect data check") => "incorrect data check",
        Some("incorrect length check") => "incorrect length check",
        _ => "its compressed data is damaged",
    }
}

fn unbrotli(state: &mut Brotli, ended: &mut bool, input: &[u8], output: &mut [u8]) -> Step {
    let (mut left, mut used) = (input.len(), 0);
    let (mut room, mut made, mut total) = (output.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut left, &mut used, input, &mut room, &mut made, output, &mut total, state,
    );
    match result {
        BrotliResult::ResultFailure => return Err("its compressed data is damaged"),
        BrotliResult::ResultSuccess => *ended = true,
        BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
    }
    Ok((used, made))
}

fn unzstd(
    decoder: &mut ZstdDecoder<'static>,
    ended: &mut bool,
    input: &[u8],
    output: &mut [u8],
) -> Step {
    // The library takes repeated calls without progress for a mistake of the caller.
    if input.is_empty() && *ended {
        return Ok((0, 0));
    }
    let status = decoder
        .run_on_buffers(input, output)
        .map_err(|error| zstd_reason(&error))?;
    if status.bytes_read > 0 || status.bytes_written > 0 {
        *ended = status.remaining == 0;
    }
    Ok((status.bytes_read, status.bytes_written))
}

fn zstd_reason(error: &std::io::Error) -> &'static str {
    match error.to_string().as_str() {
        "Unknown frame descriptor" => "no frame starts there",
        "Frame requires too much memory for decoding" => {
            "it asks for a window above 8 MiB (RFC 9659 §3)"
        }
        "Restored data doesn't match checksum" => "incorrect checksum",
        "Dictionary mismatch" => "it needs a dictionary, which HTTP does not have",
        _ => "its compressed data is damaged",
    }
}
