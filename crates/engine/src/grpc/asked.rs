//! What a user asks of gRPC calls, before it is checked.

use std::time::Duration;

use prost_reflect::DynamicMessage;
use trilane_grpc::Method;
use trilane_grpc::status::Code;

use super::message::{self, Content, Form, Scratch};
use super::protocol::Protocol;
use crate::plan::PlanError;
use crate::template::{Templates, has_placeholder};

/// When messages are encoded and decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallMode {
    /// Requests are encoded once, before the run; responses are counted by their frames.
    #[default]
    Wire,
    /// Each request is encoded when it is sent, each response decoded when it has come.
    Codec,
}

impl CallMode {
    /// The name in flags and JSON.
    pub fn name(self) -> &'static str {
        match self {
            CallMode::Wire => "wire",
            CallMode::Codec => "codec",
        }
    }
}

/// One message of a call, as it is given.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The same each time.
    Value(DynamicMessage),
    /// JSON in which `{seq}` and its like stand: another message each time.
    Template(String),
    /// Encoded already, and sent as it is.
    Encoded(Vec<u8>),
}

impl Message {
    /// The messages of JSON values that are written one after the other; of nothing, one empty message.
    pub fn all(method: &Method, json: &str) -> Result<Vec<Self>, String> {
        if !has_placeholder(json) {
            let values = method.requests(json).map_err(|error| error.to_string())?;
            return Ok(values.into_iter().map(Self::Value).collect());
        }
        let pieces = message::values(json)?;
        let several = pieces.len() > 1;
        let each = pieces.into_iter().enumerate().map(|(at, piece)| {
            if has_placeholder(piece) {
                return Ok(vec![Self::Template(piece.to_owned())]);
            }
            let values = method.requests(piece).map_err(|error| match several {
                true => format!("message {}, {error}", at + 1),
                false => error.to_string(),
            })?;
            Ok::<_, String>(values.into_iter().map(Self::Value).collect())
        });
        let each: Vec<Vec<Self>> = each.collect::<Result<_, _>>()?;
        Ok(each.into_iter().flatten().collect())
    }

    /// The bytes of the message, without prefix and compression, of this number: a message of `method`.
    pub fn encoded(&self, method: &Method, number: u64) -> Result<Vec<u8>, String> {
        let form = Form {
            gzip: false,
            framed: false,
        };
        let content = Content::new(self, method, form, &mut Templates::default());
        let content = content.map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        content.encode(number, form, &mut Scratch::default(), &mut out)?;
        Ok(out)
    }
}

/// A gRPC call: which method, and what it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The messages of a call, at least one; of a stream they take turns.
    pub messages: Vec<Message>,
    /// Status codes with which a call counts as ok; empty: those of the run.
    pub expected: Vec<Code>,
}

/// When the client ends its direction of a call that it sends a stream in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HalfClose {
    /// With the last message.
    #[default]
    Sent,
    /// When the last message has been answered.
    Answered,
    /// Never: the server ends the call, or we give it up after the time that streams last.
    Never,
}

impl HalfClose {
    /// The name in flags and JSON.
    pub fn name(self) -> &'static str {
        match self {
            HalfClose::Sent => "sent",
            HalfClose::Answered => "answered",
            HalfClose::Never => "never",
        }
    }
}

/// How the server of a bidirectional call answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Each message with so many, at least one.
    Each(u64),
    /// So many messages, at least two, with one.
    OneIn(u64),
    /// In a way that is not known: nothing is awaited.
    Any,
}

impl Default for Answers {
    fn default() -> Self {
        Self::Each(1)
    }
}

impl Answers {
    /// Parses `3`, `1/10` or `any`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} does not say how many answers a message has: type 1, 3, 1/10 (one for ten messages) or any"
            )
        };
        if text == "any" {
            return Ok(Self::Any);
        }
        let number = |text: &str| text.parse::<u64>().ok().filter(|count| *count > 0);
        match text.split_once('/') {
            None => number(text).map(Self::Each).ok_or_else(wrong),
            Some(("1", "1")) => Ok(Self::Each(1)),
            Some(("1", count)) => number(count).map(Self::OneIn).ok_or_else(wrong),
            Some(_) => Err(wrong()),
        }
    }

    /// As it is typed.
    pub fn text(self) -> String {
        match self {
            Self::Each(count) => count.to_string(),
            Self::OneIn(count) => format!("1/{count}"),
            Self::Any => "any".to_owned(),
        }
    }
}

/// What is asked of all calls of a run.
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// Where the description of the methods came from, such as `reflection v1`.
    pub schema: String,
    /// How many messages each call sends, taken in turn; none: each once, or where streams last a time
    /// as many as it takes.
    pub count: Option<u64>,
    /// When messages are encoded and decoded.
    pub mode: CallMode,
    /// The deadline that the server is told by `grpc-timeout`.
    pub deadline: Option<Duration>,
    /// Whether messages are compressed with gzip.
    pub gzip: bool,
    /// Status codes with which a call counts as ok; empty: OK alone.
    pub expected: Vec<Code>,
    /// The largest message that is taken, in bytes.
    pub max_message: usize,
    /// How the server of a bidirectional call answers.
    pub answers: Answers,
    /// How many messages of a bidirectional call may be unanswered; none: one, or as many as have one
    /// answer.
    pub in_flight: Option<u64>,
    /// Messages per second that each call sends in its stream.
    pub message_rate: Option<f64>,
    /// How long each stream lasts.
    pub stream_duration: Option<Duration>,
    /// When the client ends its direction.
    pub half_close: HalfClose,
    /// How calls are written.
    pub protocol: Protocol,
    /// Whether the last response is kept as it came, with its messages decoded: of a run of one call.
    pub keeps: bool,
}

/// The largest message that is taken where nothing else was asked for, in bytes.
pub(crate) const LARGEST_MESSAGE: usize = 64 << 20;

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            schema: String::new(),
            count: None,
            mode: CallMode::default(),
            deadline: None,
            gzip: false,
            expected: Vec::new(),
            max_message: LARGEST_MESSAGE,
            answers: Answers::default(),
            in_flight: None,
            message_rate: None,
            stream_duration: None,
            half_close: HalfClose::default(),
            protocol: Protocol::default(),
            keeps: false,
        }
    }
}

/// What is wrong with a call, as an error of the plan.
pub(super) fn wrong<T>(text: String) -> Result<T, PlanError> {
    Err(PlanError::Usage(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_a_number_a_share_or_any() {
        assert_eq!(Answers::parse("3"), Ok(Answers::Each(3)));
        assert_eq!(Answers::parse("1/10"), Ok(Answers::OneIn(10)));
        assert_eq!(Answers::parse("1/1"), Ok(Answers::Each(1)));
        assert_eq!(Answers::parse("any"), Ok(Answers::Any));
        for text in ["", "0", "2/3", "1/0", "many", "-1", "1/"] {
            let told = Answers::parse(text).unwrap_err();
            assert!(told.contains("1/10"), "{text}: {told}");
        }
        for answers in [Answers::Each(7), Answers::OneIn(4), Answers::Any] {
            assert_eq!(Answers::parse(&answers.text()), Ok(answers));
        }
    }
}
