//! What calls send, and when: checked and framed once.

use std::time::Duration;

use trilane_grpc::status::Code;
use trilane_grpc::{Method, RpcKind, timeout};

use super::asked::{Answers, Call, CallMode, CallOptions, HalfClose, wrong};
use super::message::{Content, Form, Scratch};
use super::protocol::Protocol;
use crate::listed::Listed;
use crate::options::Options;
use crate::plan::PlanError;
use crate::template::Templates;

/// Most bytes of framed messages that go with the head of a call; more are written as it goes on.
const MOST_AT_ONCE: u64 = 64 << 10;
/// Messages that may be unanswered.
const MOST_IN_FLIGHT: u64 = 65_536;
/// Of a stream without a number of messages so many belong to each call, as far as `{seq}` counts them.
const NUMBERS_EACH: u64 = 1_000_000;

/// The calls of a run: what they have in common, and each of them.
#[derive(Debug)]
pub(crate) struct CallsPlan {
    pub(crate) asked: CallOptions,
    /// By request.
    plans: Vec<CallPlan>,
    /// The methods that are called, the first one first.
    pub(crate) methods: Vec<Method>,
}

/// One of the calls.
#[derive(Debug)]
pub(crate) struct CallPlan {
    pub(crate) method: Method,
    /// Which of the methods it is.
    pub(crate) index: usize,
    kind: RpcKind,
    contents: Vec<Content>,
    /// Where each of them ends in the content of a call that sends each once; none where one changes.
    ends: Option<Box<[u64]>>,
    /// Messages that each call sends; none where they are as many as there is time for.
    pub(crate) count: Option<u64>,
    /// Status codes that count as ok, a bit for each.
    expected: u32,
    decodes: bool,
    keeps: bool,
    form: Form,
    pub(crate) protocol: Protocol,
    streamed: bool,
    pub(crate) max_message: usize,
    pub(crate) answers: Answers,
    /// Messages that may be unanswered.
    pub(crate) window: u64,
    /// From one message to the next, in nanoseconds, where they have a rate.
    pub(crate) interval: Option<u64>,
    /// How long a stream lasts, in nanoseconds.
    pub(crate) lasts: Option<u64>,
    pub(crate) half_close: HalfClose,
    /// Whether the timeout counts from the last message, either way, and not from the begin of the call.
    pub(crate) may_last: bool,
}

impl CallsPlan {
    /// The calls of a run with these requests; none where they are no calls.
    pub(crate) fn new(
        options: &Options,
        listed: &[Listed],
        templates: &mut Templates,
    ) -> Result<Option<Self>, PlanError> {
        let of = |each: &Listed| each.call.clone().or_else(|| options.call.clone());
        let calls: Vec<_> = listed.iter().map(of).collect();
        if calls.iter().all(Option::is_none) {
            return Ok(None);
        }
        check_all(&options.calls)?;
        let mut plan = Self {
            asked: options.calls.clone(),
            plans: Vec::with_capacity(calls.len()),
            methods: Vec::new(),
        };
        for (each, call) in listed.iter().zip(calls) {
            let Some(call) = call else {
                return Err(each.place(PlanError::Usage(format!(
                    "{} is no gRPC call, and others of the requests are: run load once for each",
                    each.url
                ))));
            };
            let known = plan.methods.iter();
            let known = known
                .map(Method::full_name)
                .position(|name| name == call.method.full_name());
            let index = known.unwrap_or_else(|| {
                plan.methods.push(call.method.clone());
                plan.methods.len() - 1
            });
            let made = CallPlan::new(&call, index, options, templates);
            plan.plans.push(made.map_err(|error| each.place(error))?);
        }
        check_streams(&plan)?;
        Ok(Some(plan))
    }

    /// The call that a request of the plan is.
    #[inline]
    pub(crate) fn of(&self, request: u32) -> &CallPlan {
        &self.plans[request as usize]
    }

    /// All of them, by request.
    pub(crate) fn all(&self) -> impl Iterator<Item = &CallPlan> {
        self.plans.iter()
    }

    /// The first one.
    pub(crate) fn first(&self) -> &CallPlan {
        &self.plans[0]
    }

    /// Whether any of them is answered with a stream.
    pub(crate) fn receives_streams(&self) -> bool {
        self.all().any(CallPlan::receives_stream)
    }

    /// Whether any of them is a stream, either way.
    pub(crate) fn has_streams(&self) -> bool {
        self.all().any(|call| call.kind != RpcKind::Unary)
    }

    /// Whether any of them has something to do at a time of its own.
    pub(crate) fn has_timers(&self) -> bool {
        self.all()
            .any(|call| call.interval.is_some() || call.lasts.is_some() || call.is_streamed())
    }

    /// Whether messages are encoded and decoded in each call.
    pub(crate) fn decodes(&self) -> bool {
        self.asked.mode == CallMode::Codec
    }
}

impl CallPlan {
    fn new(
        call: &Call,
        index: usize,
        options: &Options,
        templates: &mut Templates,
    ) -> Result<Self, PlanError> {
        let asked = &options.calls;
        let kind = call.method.kind();
        check_count(call)?;
        let given = call.messages.len() as u64;
        let lasts = asked.stream_duration.filter(|_| kind != RpcKind::Unary);
        let count = match asked.count.filter(|_| kind.streams_requests()) {
            None if lasts.is_some() && kind.streams_requests() => None,
            None => Some(given),
            count => count,
        };
        let form = Form {
            gzip: asked.gzip,
            framed: asked.protocol.frames(kind),
        };
        let messages = call.messages.iter();
        let contents: Vec<_> = messages
            .map(|message| Content::new(message, &call.method, form, templates))
            .collect::<Result<_, _>>()?;
        let (mut end, mut ends) = (0, Some(Vec::with_capacity(contents.len())));
        for content in &contents {
            match (content.frame(), &mut ends) {
                (Some(frame), Some(ends)) => {
                    end += frame.len() as u64;
                    ends.push(end);
                }
                _ => ends = None,
            }
        }
        let bidirectional = kind == RpcKind::Bidirectional;
        let (answers, window) = window(asked, bidirectional)?;
        let mut plan = Self {
            method: call.method.clone(),
            index,
            kind,
            contents,
            ends: ends.map(Vec::into_boxed_slice),
            count,
            expected: mask(match (&call.expected[..], &asked.expected[..]) {
                ([], []) => &[Code::Ok],
                ([], run) => run,
                (own, _) => own,
            }),
            decodes: asked.mode == CallMode::Codec,
            keeps: asked.keeps,
            form,
            protocol: asked.protocol,
            streamed: false,
            max_message: asked.max_message,
            answers,
            window,
            interval: asked
                .message_rate
                .filter(|_| kind.streams_requests())
                .map(|rate| (1e9 / rate) as u64),
            lasts: lasts.map(|lasts| lasts.as_nanos() as u64),
            half_close: if kind.streams_requests() {
                asked.half_close
            } else {
                HalfClose::Sent
            },
            // A run by number would not end.
            may_last: kind != RpcKind::Unary
                && asked.deadline.is_none()
                && (options.requests.is_none() || lasts.is_some()),
        };
        let is_long = plan
            .content_bytes()
            .is_none_or(|bytes| bytes > MOST_AT_ONCE);
        plan.streamed = plan.decodes
            || bidirectional
            || kind.streams_requests()
                && (is_long
                    || plan.interval.is_some()
                    || plan.lasts.is_some()
                    || plan.half_close != HalfClose::Sent);
        Ok(plan)
    }

    /// The fields that the call has beside the user's.
    pub(crate) fn fields(&self, asked: &CallOptions) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let mut add = |name: &str, value: String| fields.push((name.to_owned(), value));
        add(
            "content-type",
            self.protocol.content_type(self.kind).to_owned(),
        );
        let deadline = asked.deadline;
        match self.protocol {
            Protocol::Grpc => add("te", "trailers".to_owned()),
            Protocol::GrpcWeb => add("x-grpc-web", "1".to_owned()),
            Protocol::Connect => add("connect-protocol-version", "1".to_owned()),
        }
        match (self.protocol, deadline) {
            (_, None) => (),
            (Protocol::Connect, Some(deadline)) => {
                add(
                    "connect-timeout-ms",
                    deadline.as_millis().max(1).to_string(),
                );
            }
            (_, Some(deadline)) => add("grpc-timeout", timeout::encode(deadline)),
        }
        // Only where the user asks: some servers compress even the smallest message for whoever
        // takes it, and others none, which would make them do different work.
        if asked.gzip {
            let (sent, accepted) = self.protocol.encoding_fields(self.kind);
            add(sent, "gzip".to_owned());
            add(accepted, "identity,gzip".to_owned());
        }
        fields
    }

    /// Who sends how many messages.
    pub(crate) fn kind(&self) -> RpcKind {
        self.kind
    }

    /// Whether the content of a response is one message, without a prefix.
    #[inline]
    pub(crate) fn is_bare(&self) -> bool {
        !self.form.framed
    }

    /// The framed message `index` of a call, where it is the same each time.
    #[inline]
    pub(crate) fn frame(&self, index: u64) -> Option<&[u8]> {
        self.content_of(index).frame()
    }

    fn content_of(&self, index: u64) -> &Content {
        &self.contents[(index % self.contents.len() as u64) as usize]
    }

    /// Appends message `index` of the call of this number with its prefix, encoded anew.
    pub(crate) fn encode(
        &self,
        number: u64,
        index: u64,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let number = number.wrapping_mul(self.count.unwrap_or(NUMBERS_EACH));
        let number = number.wrapping_add(index);
        self.content_of(index)
            .encode(number, self.form, scratch, out)
    }

    /// Bytes of the framed messages of a call, where they are always as many.
    pub(crate) fn content_bytes(&self) -> Option<u64> {
        let (ends, count) = (self.ends.as_deref()?, self.count?);
        let (round, each) = (*ends.last()?, ends.len() as u64);
        let rest = (count % each) as usize;
        let rest = rest.checked_sub(1).map_or(0, |last| ends[last]);
        Some((count / each).saturating_mul(round).saturating_add(rest))
    }

    /// How many messages are whole in the first `bytes` of the content, where they are always the same.
    pub(crate) fn whole(&self, bytes: u64) -> Option<u64> {
        let ends = self.ends.as_deref()?;
        let round = *ends.last()?;
        if round == 0 {
            // Messages without a prefix may be empty: all of them have left.
            return self.count;
        }
        let rest = ends.partition_point(|end| *end <= bytes % round);
        Some(bytes / round * ends.len() as u64 + rest as u64)
    }

    /// Whether the content is written while the call goes on.
    #[inline]
    pub(crate) fn is_streamed(&self) -> bool {
        self.streamed
    }

    /// What changes in the one message of a call whose content goes with its head.
    pub(crate) fn changing(&self) -> Option<&super::message::MessageTemplate> {
        match &self.contents[..] {
            [Content::Changing(template)] if !self.streamed => Some(template),
            _ => None,
        }
    }

    /// Whether messages have answers of their own.
    #[inline]
    pub(crate) fn awaits_answers(&self) -> bool {
        self.kind == RpcKind::Bidirectional && self.answers != Answers::Any
    }

    /// Whether messages are encoded and decoded in each call.
    #[inline]
    pub(crate) fn decodes(&self) -> bool {
        self.decodes
    }

    /// Whether responses are kept as they came.
    #[inline]
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Whether messages are collected: to be decoded or kept, or as one of them has the status.
    #[inline]
    pub(crate) fn collects(&self) -> bool {
        self.form.framed && (self.decodes || self.keeps || self.protocol.flags() != 0)
    }

    /// Whether the response is a stream of messages.
    #[inline]
    pub(crate) fn receives_stream(&self) -> bool {
        self.kind.streams_responses()
    }

    /// Whether a call that has lasted as long as it may is given up: we have no other way to end it.
    pub(crate) fn is_given_up(&self) -> bool {
        !self.kind.streams_requests() || self.half_close == HalfClose::Never
    }

    /// Whether a call that ends with this status is ok.
    #[inline]
    pub(crate) fn expects(&self, code: Code) -> bool {
        self.expected & 1 << code as u32 != 0
    }

    /// The codes with which a call is ok.
    pub(crate) fn expected(&self) -> impl Iterator<Item = Code> {
        Code::ALL.into_iter().filter(|code| self.expects(*code))
    }

    /// The whole content of a call that is not streamed.
    pub(crate) fn content(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for index in 0..self.count.unwrap_or_default() {
            match self.frame(index) {
                Some(frame) => out.extend_from_slice(frame),
                // That of the first call: it was tried when the plan was made.
                None => {
                    let _ = self.encode(0, index, &mut Scratch::default(), &mut out);
                }
            }
        }
        out
    }
}

fn mask(codes: &[Code]) -> u32 {
    codes.iter().fold(0, |mask, code| mask | 1 << *code as u32)
}

/// Answers, and the messages that may be without one.
fn window(asked: &CallOptions, bidirectional: bool) -> Result<(Answers, u64), PlanError> {
    if !bidirectional {
        return Ok((Answers::Any, u64::MAX));
    }
    let least = match asked.answers {
        Answers::Each(_) => 1,
        Answers::OneIn(count) => count,
        Answers::Any => return Ok((Answers::Any, u64::MAX)),
    };
    let window = asked.in_flight.unwrap_or(least);
    if window < least {
        return wrong(format!(
            "--messages-in-flight {window} with --answers {}: the answer comes after {least} messages: type --messages-in-flight {least} or more",
            asked.answers.text()
        ));
    }
    Ok((asked.answers, window))
}

/// What calls are asked for, whichever they are.
fn check_all(asked: &CallOptions) -> Result<(), PlanError> {
    if asked.deadline == Some(Duration::ZERO) {
        return wrong("--deadline 0 leaves no time for an answer: type --deadline 1s".to_owned());
    }
    if asked.stream_duration == Some(Duration::ZERO) {
        return wrong("--stream-duration 0 leaves no time: type --stream-duration 10s".to_owned());
    }
    if asked
        .in_flight
        .is_some_and(|count| !(1..=MOST_IN_FLIGHT).contains(&count))
    {
        return wrong(format!(
            "--messages-in-flight {}: there are 1 to {MOST_IN_FLIGHT}: type --messages-in-flight 16",
            asked.in_flight.unwrap_or_default()
        ));
    }
    if asked.answers == Answers::Any && asked.in_flight.is_some() {
        return wrong(
            "--messages-in-flight bounds the messages without an answer, and with --answers any none is awaited: leave one of them out".to_owned(),
        );
    }
    if asked.half_close == HalfClose::Answered && asked.answers == Answers::Any {
        return wrong(
            "--half-close answered awaits the answers to all messages, and with --answers any none is awaited: leave one of them out".to_owned(),
        );
    }
    match asked.max_message {
        0 => wrong("--max-message 0 takes none: type --max-message 4m".to_owned()),
        _ => Ok(()),
    }
}

/// How many messages a call sends, and how many were given.
fn check_count(call: &Call) -> Result<(), PlanError> {
    let method = call.method.full_name();
    let kind = call.method.kind();
    let given = call.messages.len();
    // Of several methods some may send streams, and the number is theirs.
    if !kind.streams_requests() && given != 1 {
        return wrong(format!(
            "{given} messages: {method} is {} and takes one message in each call: give one",
            kind.name()
        ));
    }
    if given == 0 {
        return wrong(format!(
            "a call of {method} was given no message: give one, or type --messages 0"
        ));
    }
    Ok(())
}

/// Refuses what is about streams where no call is one.
fn check_streams(plan: &CallsPlan) -> Result<(), PlanError> {
    let asked = &plan.asked;
    let method = plan.first().method.full_name();
    let kinds = || plan.all().map(|call| call.kind);
    let kind = plan.first().kind.name();
    if let Some(count) = asked
        .count
        .filter(|_| !kinds().any(RpcKind::streams_requests))
    {
        return wrong(format!(
            "--messages {count}: {method} is {kind} and takes one message in each call: leave --messages out"
        ));
    }
    let given = |given: bool, flag: &'static str| given.then_some(flag);
    let of_streams = given(asked.message_rate.is_some(), "--message-rate").or(given(
        asked.half_close != HalfClose::default(),
        "--half-close",
    ));
    if let Some(flag) = of_streams.filter(|_| !kinds().any(RpcKind::streams_requests)) {
        return wrong(format!(
            "{flag} is about streams of messages to the server, and {method} is {kind}: leave {flag} out"
        ));
    }
    if asked.stream_duration.is_some() && kinds().all(|kind| kind == RpcKind::Unary) {
        return wrong(format!(
            "--stream-duration is about streams, and {method} is {kind}: leave --stream-duration out"
        ));
    }
    let of_answers = given(asked.in_flight.is_some(), "--messages-in-flight")
        .or(given(asked.answers != Answers::default(), "--answers"))
        .or(given(
            asked.half_close == HalfClose::Answered,
            "--half-close answered",
        ));
    match of_answers.filter(|_| !kinds().any(|kind| kind == RpcKind::Bidirectional)) {
        Some(flag) => wrong(format!(
            "{flag} is about messages that are answered one by one, and {method} is {kind}: leave {flag} out"
        )),
        None => Ok(()),
    }
}
