//! Numbers, texts and bytes from JSON.

use std::fmt;

use base64::{
    DecodeError, Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use prost_reflect::{Kind, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, Unexpected, Visitor};

use super::{expected, number};

const BASE64: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, BASE64);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, BASE64);

/// Reads a value of a kind that is neither a message nor an enumeration.
pub(super) struct Scalar<'a>(pub(super) &'a Kind);

impl<'de> DeserializeSeed<'de> for Scalar<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        match self.0 {
            Kind::String => json.deserialize_string(self),
            Kind::Bytes => json.deserialize_str(self),
            _ => json.deserialize_any(self),
        }
    }
}

const I64_END: i128 = 1 << 63;
const U64_END: i128 = 1 << 64;

impl Scalar<'_> {
    fn is_signed_64(&self) -> bool {
        matches!(self.0, Kind::Int64 | Kind::Sint64 | Kind::Sfixed64)
    }

    /// A whole number, where the kind has it.
    fn whole<E: Error>(&self, value: i128) -> Result<Value, E> {
        let found = match self.0 {
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => value.try_into().ok().map(Value::I32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => value.try_into().ok().map(Value::I64),
            Kind::Uint32 | Kind::Fixed32 => value.try_into().ok().map(Value::U32),
            Kind::Uint64 | Kind::Fixed64 => value.try_into().ok().map(Value::U64),
            _ => None,
        };
        found.ok_or_else(|| {
            let wanted = expected::by_kind(self.0);
            E::custom(format!("{value} is not {wanted}"))
        })
    }

    fn double<E: Error>(&self, value: f64) -> Result<Value, E> {
        match self.0 {
            Kind::Double => Ok(Value::F64(value)),
            Kind::Float => match number::narrow(value) {
                Some(value) => Ok(Value::F32(value)),
                None => Err(E::custom(format!("{value} does not fit into 32 bits"))),
            },
            Kind::Bool | Kind::String | Kind::Bytes => {
                Err(E::invalid_type(Unexpected::Float(value), self))
            }
            _ => match number::whole_of(value) {
                // Written with an exponent the largest number comes rounded, to one more than there is.
                Some(I64_END) if self.is_signed_64() => self.whole(I64_END - 1),
                Some(U64_END) => self.whole(U64_END - 1),
                Some(value) => self.whole(value),
                None => Err(E::invalid_value(Unexpected::Float(value), self)),
            },
        }
    }

    /// A whole number that JSON writes as one.
    fn integer<E: Error>(&self, value: i128, unexpected: Unexpected<'_>) -> Result<Value, E> {
        match self.0 {
            // The nearest number that the kind has.
            Kind::Double => Ok(Value::F64(value as f64)),
            Kind::Float => Ok(Value::F32(value as f32)),
            Kind::Bool | Kind::String | Kind::Bytes => Err(E::invalid_type(unexpected, self)),
            _ => self.whole(value),
        }
    }
}

impl Visitor<'_> for Scalar<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&expected::by_kind(self.0))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        match self.0 {
            Kind::Bool => Ok(Value::Bool(value)),
            _ => Err(E::invalid_type(Unexpected::Bool(value), &self)),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.integer(value.into(), Unexpected::Signed(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.integer(value.into(), Unexpected::Unsigned(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.double(value)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        let invalid = || E::invalid_value(Unexpected::Str(text), &self);
        match self.0 {
            Kind::String => Ok(Value::String(text.to_owned())),
            Kind::Bytes => match bytes(text) {
                Ok(bytes) => Ok(Value::Bytes(bytes.into())),
                Err(reason) => Err(E::custom(format!("this is not base64: {reason}"))),
            },
            Kind::Double | Kind::Float => self.double(number::double(text).ok_or_else(invalid)?),
            Kind::Bool => Err(E::invalid_type(Unexpected::Str(text), &self)),
            _ => self.whole(number::whole(text).ok_or_else(invalid)?),
        }
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        match self.0 {
            Kind::String => Ok(Value::String(text)),
            _ => self.visit_str(&text),
        }
    }
}

/// Base64 in either alphabet, with and without padding.
fn bytes(text: &str) -> Result<Vec<u8>, DecodeError> {
    match STANDARD.decode(text) {
        Err(DecodeError::InvalidByte(_, b'-' | b'_')) => URL_SAFE.decode(text),
        other => other,
    }
}
