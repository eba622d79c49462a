//! Paths as they come: percent-encoded, split at `/`.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::binding::Parameter;

/// What becomes of an encoded slash, `%2F` or `%2f`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slashes {
    /// It is decoded: in a variable of one segment, and in a literal.
    Decoded,
    /// It is left as it is: in a variable of more than one segment, where `/` separates.
    Kept,
}

/// Percent-decodes `text`; malformed escapes and what is not UTF-8 are refused.
pub(crate) fn decode(text: &str, slashes: Slashes) -> Result<Cow<'_, str>, String> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    check_escapes(text)?;
    let not_text = |_| format!("{} is not UTF-8 after percent-decoding", shown(text));
    if slashes == Slashes::Decoded {
        return percent_decode_str(text).decode_utf8().map_err(not_text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut done = 0;
    // `check_escapes` has seen two digits behind each.
    for (at, _) in text.match_indices('%') {
        if text[at + 1..at + 3].eq_ignore_ascii_case("2F") {
            bytes.extend(percent_decode_str(&text[done..at]));
            bytes.extend_from_slice(&text.as_bytes()[at..at + 3]);
            done = at + 3;
        }
    }
    bytes.extend(percent_decode_str(&text[done..]));
    match String::from_utf8(bytes) {
        Ok(decoded) => Ok(Cow::Owned(decoded)),
        Err(_) => Err(format!(
            "{} is not UTF-8 after percent-decoding",
            shown(text)
        )),
    }
}

/// Refuses a `%` without two hexadecimal digits.
pub(crate) fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('%') {
        let digits = bytes.get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let escape = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]);
            return Err(format!("{escape:?} is not a percent-encoded byte"));
        }
    }
    Ok(())
}

/// What a variable takes from `path`, which is without its first slash and its verb.
pub(crate) fn value(path: &str, parameter: &Parameter) -> Result<String, String> {
    let variable = &parameter.variable;
    let Some(start) = offset(path, variable.start) else {
        return Ok(String::new()); // `**` that matched no segment
    };
    let text = &path[start..];
    let text = match variable.end {
        None => text,
        Some(end) => match offset(text, end - variable.start) {
            Some(next) => &text[..next - 1],
            None => text,
        },
    };
    if variable.is_single() {
        return decode(text, Slashes::Decoded).map(Cow::into_owned);
    }
    // "fully URI-decoded except in cases of single segment matches in reserved expansion"
    let rest = match variable.rest.filter(|_| parameter.fully_decode) {
        Some(rest) => offset(text, rest - variable.start).unwrap_or(text.len()),
        None => text.len(),
    };
    let (kept, decoded) = text.split_at(rest);
    let kept = decode(kept, Slashes::Kept)?;
    Ok(kept.into_owned() + &decode(decoded, Slashes::Decoded)?)
}

/// Where segment `number` starts.
fn offset(path: &str, number: usize) -> Option<usize> {
    match number.checked_sub(1) {
        None => Some(0),
        Some(slash) => path
            .match_indices('/')
            .nth(slash)
            .map(|(offset, _)| offset + 1),
    }
}

/// `text` in quotes for a message, cut where it is long: a peer writes it.
pub(crate) fn shown(text: &str) -> String {
    match cut(text, 80) {
        Some(start) => format!("{start:?}…"),
        None => format!("{text:?}"),
    }
}

/// The start of `text`, where it is longer than `longest` characters.
pub(crate) fn cut(text: &str, longest: usize) -> Option<&str> {
    let (end, _) = text.char_indices().nth(longest)?;
    Some(&text[..end])
}
