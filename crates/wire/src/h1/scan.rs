//! The quick way through an ordinary head, for when nobody wants its fields.

use super::Limits;
use super::head::{MAX_FIELDS, Meaning, Parsed};
use crate::field;

/// Reads the whole head at the front of `input` and says how long it is. `None` means that it is
/// incomplete, wrong or merely unusual: [`super::head::parse`] then decides. Where there is a
/// result, it is what `parse` would have said.
pub(super) fn head(input: &[u8], limits: &Limits) -> Option<(Parsed, usize)> {
    let code = input.strip_prefix(b"HTTP/1.1 ")?.first_chunk::<4>()?;
    let [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9', b' '] = *code else {
        return None;
    };
    let status = code[..3]
        .iter()
        .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));

    let mut at = next_line(input, 13)?;
    let mut meaning = Meaning::default();
    let mut count = 0;
    loop {
        let line = &input[at..];
        if line.starts_with(b"\r\n") {
            at += 2;
            break;
        }
        let name_end = line.iter().position(|&byte| !TOKEN[byte as usize])?;
        if name_end == 0 || line[name_end] != b':' {
            return None;
        }
        let next = next_line(input, at + name_end + 1)?;
        let value = input[at + name_end + 1..next - 2].trim_ascii();
        meaning.count(&line[..name_end], value);
        // The fields that matter have these lengths; what the others say is only checked.
        if matches!(name_end, 10 | 14 | 17) {
            meaning.add(&line[..name_end], value).ok()?;
        }
        at = next;
        count += 1;
    }
    if at > limits.head_bytes || count > limits.fields.min(MAX_FIELDS) {
        return None;
    }
    Some((meaning.conclude(status, 1).ok()?, at))
}

/// Where the line after the one at `at` begins: behind the first CRLF. `None` where a control
/// character comes before it, HTAB among them, or the input ends.
fn next_line(input: &[u8], mut at: usize) -> Option<usize> {
    while let Some(word) = input.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let controls = controls(u64::from_le_bytes(*word));
        if controls != 0 {
            at += (controls.trailing_zeros() / 8) as usize;
            return input[at..].starts_with(b"\r\n").then_some(at + 2);
        }
        at += 8;
    }
    at += input
        .get(at..)?
        .iter()
        .position(|&byte| byte < 0x20 || byte == 0x7f)?;
    input[at..].starts_with(b"\r\n").then_some(at + 2)
}

/// The high bit of each byte of `word` that is a control character. Bits above the lowest one that
/// is set may be wrong, because borrows run upwards.
fn controls(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let delete = word ^ (ONES * 0x7f);
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let is_delete = delete.wrapping_sub(ONES) & !delete;
    (below_space | is_delete) & (ONES * 0x80)
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = field::is_token(byte as u8);
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_control_character_is_found_wherever_it_stands() {
        for byte in 0..=255u8 {
            for at in 0..24 {
                let mut line = [b'\xff'; 26];
                line[at] = byte;
                line[24..].copy_from_slice(b"\r\n");
                let is_control = byte < 0x20 || byte == 0x7f;
                assert_eq!(
                    next_line(&line, 0),
                    (!is_control).then_some(26),
                    "{byte} at {at}"
                );
            }
        }
    }

    #[test]
    fn an_ordinary_head_is_read() {
        let input = b"HTTP/1.1 404 Not Found\r\nServer: x\r\nContent-Length: 11\r\nConnection: close\r\n\r\nhello";
        let (parsed, length) = head(input, &Limits::default()).unwrap();
        assert_eq!(length, input.len() - 5);
        assert_eq!(
            (parsed.status, parsed.content_length, parsed.keep_alive),
            (404, Some(11), false)
        );
        assert_eq!(parsed.field_bytes, "Server".len() + 1 + 14 + 2 + 10 + 5);
    }

    #[test]
    fn an_unusual_head_is_left_to_the_other_reader() {
        for input in [
            &b"HTTP/1.0 200 OK\r\n\r\n"[..],
            b"HTTP/1.1 200\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA:\tb\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: b\n\r\n",
            b"HTTP/1.1 200 OK\r\n folded\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: b\r\n\r",
        ] {
            assert_eq!(
                head(input, &Limits::default()),
                None,
                "{}",
                input.escape_ascii()
            );
        }
    }
}
