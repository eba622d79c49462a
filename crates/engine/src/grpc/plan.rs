//! What a call sends: checked and framed once.

use std::time::Duration;

use prost_reflect::DynamicMessage;
use prost_reflect::prost::Message as _;
use trilane_grpc::{Method, RpcKind, frame, gzip, timeout};

use crate::plan::PlanError;

/// Most bytes of framed messages that a plan keeps.
const MOST_CONTENT: u64 = 256 << 20;

/// When messages are encoded and decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMode {
    /// Requests are encoded once, before the run; responses are counted by their frames.
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

/// A gRPC call, as the user asks for it.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Where its description came from, such as `reflection v1`.
    pub schema: String,
    /// The messages to send, at least one.
    pub messages: Vec<DynamicMessage>,
    /// How many messages each call sends, taken in turn; `None`: each once.
    pub count: Option<usize>,
    /// When messages are encoded and decoded.
    pub mode: CallMode,
    /// The deadline that the server is told by `grpc-timeout`.
    pub deadline: Option<Duration>,
    /// Whether messages are compressed with gzip.
    pub gzip: bool,
}

/// A call that can be made.
#[derive(Debug)]
pub(crate) struct CallPlan {
    pub(crate) call: Call,
    /// The messages, framed.
    pub(crate) frames: Vec<Box<[u8]>>,
    /// Messages that each call sends.
    pub(crate) count: usize,
    /// Bytes of the framed messages of a call.
    pub(crate) content_bytes: u64,
}

impl CallPlan {
    pub(crate) fn new(call: &Call) -> Result<Self, PlanError> {
        let method = call.method.full_name();
        let given = call.messages.len();
        let kind = call.method.kind();
        let count = call.count.unwrap_or(given);
        if !sends_stream(kind) && (given != 1 || count != 1) {
            let (what, way) = if given == 1 {
                (format!("--messages {count}"), "leave --messages out")
            } else {
                (format!("{given} messages"), "give one")
            };
            return Err(PlanError::Usage(format!(
                "{what}: {method} is {} and takes one message in each call: {way}",
                kind.name()
            )));
        }
        if count == 0 || given == 0 {
            return Err(PlanError::Usage(format!(
                "--messages 0: a call of {method} sends at least one: type --messages 1"
            )));
        }
        if call.deadline == Some(Duration::ZERO) {
            return Err(PlanError::Usage(
                "--deadline 0 leaves no time for an answer: type --deadline 1s".to_owned(),
            ));
        }
        let frames: Vec<_> = call
            .messages
            .iter()
            .map(|message| {
                let mut out = Vec::new();
                write_frame(message, call.gzip, &mut Vec::new(), &mut out);
                out.into_boxed_slice()
            })
            .collect();
        let mut plan = Self {
            call: call.clone(),
            frames,
            count,
            content_bytes: 0,
        };
        let sizes = (0..count).map(|index| plan.frame(index).len() as u64);
        let size: u64 = sizes.sum();
        plan.content_bytes = size;
        if size > MOST_CONTENT && !plan.is_streamed() {
            return Err(PlanError::Usage(format!(
                "--messages {count}: the messages of one call take {size} bytes, more than {MOST_CONTENT} are not kept: type a smaller number"
            )));
        }
        Ok(plan)
    }

    /// The framed message `index` of a call.
    pub(crate) fn frame(&self, index: usize) -> &[u8] {
        &self.frames[index % self.frames.len()]
    }

    /// Whether the content is written while the call goes on.
    pub(crate) fn is_streamed(&self) -> bool {
        self.decodes() || self.answers_each()
    }

    /// Whether a message waits for the answer to the one before.
    pub(crate) fn answers_each(&self) -> bool {
        self.call.method.kind() == RpcKind::Bidirectional
    }

    /// Whether messages are encoded and decoded in each call.
    pub(crate) fn decodes(&self) -> bool {
        self.call.mode == CallMode::Codec
    }

    /// Whether the response is a stream of messages.
    pub(crate) fn receives_stream(&self) -> bool {
        matches!(
            self.call.method.kind(),
            RpcKind::ServerStreaming | RpcKind::Bidirectional
        )
    }

    /// The whole content of a call that is not streamed.
    pub(crate) fn content(&self) -> Vec<u8> {
        (0..self.count)
            .flat_map(|index| self.frame(index))
            .copied()
            .collect()
    }

    /// The fields that every call has beside the user's.
    pub(crate) fn fields(&self) -> Vec<(String, String)> {
        let mut fields = vec![
            ("te".to_owned(), "trailers".to_owned()),
            ("content-type".to_owned(), "application/grpc".to_owned()),
        ];
        // Only where the user asks: some servers compress even the smallest message for whoever
        // takes it, and others none, which would make them do different work.
        if self.call.gzip {
            let accepted = "identity,gzip".to_owned();
            fields.push(("grpc-encoding".to_owned(), "gzip".to_owned()));
            fields.push(("grpc-accept-encoding".to_owned(), accepted));
        }
        if let Some(deadline) = self.call.deadline {
            fields.push(("grpc-timeout".to_owned(), timeout::encode(deadline)));
        }
        fields
    }
}

fn sends_stream(kind: RpcKind) -> bool {
    matches!(kind, RpcKind::ClientStreaming | RpcKind::Bidirectional)
}

/// Encodes and frames a message; `scratch` saves an allocation.
pub(super) fn write_frame(
    message: &DynamicMessage,
    compress: bool,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    scratch.clear();
    message
        .encode(scratch)
        .expect("a vector grows as far as it must");
    if compress {
        frame::write(&gzip::compress(scratch), true, out);
    } else {
        frame::write(scratch, false, out);
    }
}
