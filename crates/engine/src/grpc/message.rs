//! The messages of a call, framed: those that are the same each time, and those that are not.

use prost_reflect::DynamicMessage;
use prost_reflect::prost::Message as _;
use trilane_grpc::{Method, frame, gzip};

use super::asked::{Message, wrong};
use crate::plan::PlanError;
use crate::scenario::Values;
use crate::template::{Template, Templates};

/// Messages of a template that are tried before the run, at most: a column of a file may be long.
const MOST_TRIED: u64 = 100_000;

/// One message of a call, as it is sent.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The same each time.
    Fixed {
        value: DynamicMessage,
        /// With its prefix.
        frame: Box<[u8]>,
    },
    /// Another one each time: JSON, which is read and encoded anew.
    Changing(Box<MessageTemplate>),
}

/// How messages are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// Compressed.
    pub(crate) gzip: bool,
    /// With a prefix.
    pub(crate) framed: bool,
}

/// JSON of a message in which something changes.
#[derive(Clone, Debug)]
pub(crate) struct MessageTemplate {
    template: Template,
    method: Method,
    form: Form,
}

/// Memory that is used again for each message that is made anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    text: Vec<u8>,
    encoded: Vec<u8>,
}

impl Content {
    /// `message` of a call of `method`, checked.
    pub(crate) fn new(
        message: &Message,
        method: &Method,
        form: Form,
        templates: &mut Templates,
    ) -> Result<Self, PlanError> {
        let fixed = |value: DynamicMessage, frame: Vec<u8>| Self::Fixed {
            value,
            frame: frame.into(),
        };
        let mut out = Vec::new();
        match message {
            Message::Value(value) => {
                write_message(value, form, &mut Vec::new(), &mut out);
                Ok(fixed(value.clone(), out))
            }
            Message::Encoded(bytes) => match method.decode_request(bytes) {
                Ok(value) => {
                    write_bytes(bytes, form, &mut out);
                    Ok(fixed(value, out))
                }
                Err(error) => wrong(format!("--body: {error}")),
            },
            Message::Template(text) => {
                let Some(template) = templates.parse(text)? else {
                    return wrong(format!("--body: nothing changes in {text:?}"));
                };
                let template = MessageTemplate {
                    template,
                    method: method.clone(),
                    form,
                };
                let mut scratch = Scratch::default();
                for number in 0..template.template.period().min(MOST_TRIED) {
                    if let Err(error) = template.write(number, &mut scratch, &mut out) {
                        return wrong(format!("--body: {error}"));
                    }
                    out.clear();
                }
                Ok(Self::Changing(Box::new(template)))
            }
        }
    }

    /// The bytes of the message with its prefix, where it is the same each time.
    pub(crate) fn frame(&self) -> Option<&[u8]> {
        match self {
            Self::Fixed { frame, .. } => Some(frame),
            Self::Changing(_) => None,
        }
    }

    /// Appends the message of this number with its prefix, encoded anew.
    pub(crate) fn encode(
        &self,
        number: u64,
        form: Form,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match self {
            Self::Fixed { value, .. } => {
                write_message(value, form, &mut scratch.encoded, out);
                Ok(())
            }
            Self::Changing(template) => template.write(number, scratch, out),
        }
    }
}

impl MessageTemplate {
    /// Appends the message of this number with its prefix. An error says what its text is not, such as a
    /// number too large for its field.
    pub(crate) fn write(
        &self,
        number: u64,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let Scratch { text, encoded } = scratch;
        text.clear();
        self.template.write(number, Values::NONE, text);
        let json = str::from_utf8(text).map_err(|error| error.to_string())?;
        let values = self.method.requests(json);
        let values = values.map_err(|error| format!("message {number} of a template: {error}"))?;
        let [value] = &values[..] else {
            return Err(format!(
                "message {number} of a template is {} messages: {json}",
                values.len()
            ));
        };
        write_message(value, self.form, encoded, out);
        Ok(())
    }
}

/// Encodes a message and writes it; `scratch` saves an allocation.
fn write_message(message: &DynamicMessage, form: Form, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    scratch.clear();
    message
        .encode(scratch)
        .expect("a vector grows as far as it must");
    write_bytes(scratch, form, out);
}

fn write_bytes(message: &[u8], form: Form, out: &mut Vec<u8>) {
    let packed;
    let message = if form.gzip {
        packed = gzip::compress(message);
        &packed
    } else {
        message
    };
    if form.framed {
        frame::write(message, form.gzip, out);
    } else {
        out.extend_from_slice(message);
    }
}

/// The JSON values of `text`, which stand one after the other, as they are written. Placeholders may stand
/// in them, as their braces are paired as those of JSON are.
pub(super) fn values(text: &str) -> Result<Vec<&str>, String> {
    let bytes = text.as_bytes();
    let (mut pieces, mut at) = (Vec::new(), 0);
    while let Some(begin) = bytes[at..]
        .iter()
        .position(|byte| !byte.is_ascii_whitespace())
        .map(|skipped| at + skipped)
    {
        let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
        let mut end = bytes.len();
        for (index, &byte) in bytes.iter().enumerate().skip(begin) {
            if quoted {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => quoted = false,
                    _ => (),
                }
            } else {
                match byte {
                    b'"' => quoted = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth = depth.checked_sub(1).ok_or_else(|| {
                            format!(
                                "message {}: a bracket closes that none opened",
                                pieces.len() + 1
                            )
                        })?;
                    }
                    _ if depth == 0 && byte.is_ascii_whitespace() => {
                        end = index;
                        break;
                    }
                    _ => continue,
                }
            }
            if depth == 0 && !quoted {
                end = index + 1;
                break;
            }
        }
        pieces.push(&text[begin..end]);
        at = end;
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::values;

    #[test]
    fn values_are_told_apart_whatever_stands_in_them() {
        let text = "{\"a\": {seq}}{\"b\": \"}\\\"{\"}\n [1, {uuid}] \"x y\" 7 true";
        let found = values(text).unwrap();
        assert_eq!(
            found,
            [
                "{\"a\": {seq}}",
                "{\"b\": \"}\\\"{\"}",
                "[1, {uuid}]",
                "\"x y\"",
                "7",
                "true"
            ]
        );
        assert_eq!(values(" \n").unwrap(), Vec::<&str>::new());
        assert_eq!(values("{\"cut\": {seq}").unwrap(), ["{\"cut\": {seq}"]);
        assert!(values("{} }").unwrap_err().contains("message 2"));
    }
}
