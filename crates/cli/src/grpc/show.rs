//! `--show`: one call, of which the response is printed.

use trilane_engine::{Call, Options, PlanError};
use trilane_grpc::frame::Collector;
use trilane_grpc::status::{self, Code};
use trilane_grpc::{frame, gzip, timeout};
use trilane_transport::tls::Words;
use trilane_wire::FieldList;

use crate::caller::{Caller, PIECE, Purpose, first};
use crate::output::write_result;
use crate::report::printable;
use crate::{FAILED, OK, code_of, complain};

/// What is printed of a response, in bytes.
const LONGEST: usize = 16 << 20;

/// Makes the first of the calls, prints head, messages and trailers, and gives the exit code: 0 where its
/// status is one of those that count as ok.
pub(crate) fn show(options: &Options, output: Option<&std::path::Path>) -> u8 {
    let shown = call_once(options).map_err(|error| (code_of(&error), error.to_string()));
    let written = shown.and_then(|(text, is_ok)| match write_result(text, output) {
        Ok(()) => Ok(is_ok),
        Err(error) => Err((FAILED, error)),
    });
    match written {
        Ok(true) => OK,
        Ok(false) => FAILED,
        Err((code, error)) => {
            complain(error);
            code
        }
    }
}

/// The text of one response, and whether its status counts as ok.
fn call_once(options: &Options) -> Result<(String, bool), PlanError> {
    let listed = options.listed.first();
    let call = listed
        .and_then(|each| each.call.as_ref())
        .or(options.call.as_ref());
    let Some(call) = call else {
        return Err(PlanError::Usage(
            "--show prints the response of a gRPC call: type it with --grpc PKG.SERVICE/METHOD"
                .into(),
        ));
    };
    let url = listed.map(|each| each.url.as_str());
    let url = url
        .or(options.urls.first().map(String::as_str))
        .unwrap_or_default();
    let mut fields = listed.map_or_else(Vec::new, |each| each.fields.clone());
    let mut asked = options.clone();
    let lasts = options.calls.stream_duration;
    if let Some(lasts) = lasts {
        asked.timeout = lasts;
    }
    if let Some(deadline) = options.calls.deadline {
        asked.timeout = deadline.min(asked.timeout);
        fields.push(("grpc-timeout".into(), timeout::encode(deadline)));
    }
    if options.calls.gzip {
        fields.push(("grpc-encoding".into(), "gzip".into()));
    }
    let caller = Caller::connect(&asked, url, Purpose::Call, Words::LOAD)?;
    let exchange = caller.submit(call.method.path(), content(call, options)?, &fields)?;
    let mut text = String::new();
    let http = caller.wait(|left, patience| exchange.head(left, patience))?;
    let head = exchange.fields();
    text.push_str(&format!("HTTP {http}\n"));
    write_fields(&head, &mut text);
    let coding = first(&head, b"grpc-encoding").to_vec();
    let mut collector = Collector::new(options.calls.max_message);
    let is_grpc = first(&head, b"content-type").starts_with(b"application/grpc");
    let mut wrong = None;
    loop {
        let read = caller.wait(|left, patience| exchange.read_some(PIECE, left, patience));
        let piece = match read {
            Err(_) if lasts.is_some() && caller.is_late() => {
                text.push_str("\n(given up here: the stream goes on)\n");
                return Ok((text, true));
            }
            read => read?,
        };
        if text.len() > LONGEST {
            text.push_str("\n(cut here: the response goes on)\n");
            return Ok((text, true));
        }
        if piece.is_empty() {
            break;
        }
        if !is_grpc {
            text.push('\n');
            text.push_str(&printable(&String::from_utf8_lossy(&piece)));
            continue;
        }
        let fed = collector.feed(&piece, |compressed, message| {
            text.push('\n');
            match decoded(call, options, compressed, &coding, message) {
                Ok(json) => text.push_str(&json),
                Err(error) => wrong = Some(error),
            }
        });
        if let Err(error) = fed {
            return Err(PlanError::Environment(format!("{url}: {error}")));
        }
        if let Some(error) = wrong {
            return Err(PlanError::Environment(format!("{url}: {error}")));
        }
    }
    let trailers = exchange.trailers().unwrap_or_default();
    text.push('\n');
    write_fields(&trailers, &mut text);
    let told = [
        first(&trailers, b"grpc-status"),
        first(&head, b"grpc-status"),
    ];
    let told = told.into_iter().find(|value| !value.is_empty());
    let code = match told.and_then(status::parse) {
        Some(code) => code,
        None if http == 200 => Code::Unknown,
        None => status::of_http(http),
    };
    text.push_str(&format!("{} {code}\n", code as u32));
    let expected = match (&call.expected[..], &options.calls.expected[..]) {
        ([], []) => &[Code::Ok],
        ([], run) => run,
        (own, _) => own,
    };
    Ok((text, expected.contains(&code)))
}

/// The framed messages of the call.
fn content(call: &Call, options: &Options) -> Result<Vec<u8>, PlanError> {
    let mut content = Vec::new();
    let count = options
        .calls
        .count
        .filter(|_| call.method.kind().streams_requests());
    let count = count.map_or(call.messages.len(), |count| count as usize);
    for (number, message) in (0..).zip(call.messages.iter().cycle().take(count)) {
        let bytes = message
            .encoded(&call.method, number)
            .map_err(|error| PlanError::Usage(format!("--body: {error}")))?;
        if options.calls.gzip {
            frame::write(&gzip::compress(&bytes), true, &mut content);
        } else {
            frame::write(&bytes, false, &mut content);
        }
    }
    Ok(content)
}

/// A message as JSON.
fn decoded(
    call: &Call,
    options: &Options,
    compressed: bool,
    coding: &[u8],
    message: &[u8],
) -> Result<String, String> {
    let unpacked;
    let message = match (compressed, coding) {
        (false, _) => message,
        (true, b"gzip") => {
            unpacked = gzip::decompress(message, options.calls.max_message)
                .map_err(|error| error.to_string())?;
            &unpacked
        }
        (true, other) => {
            return Err(format!(
                "a message is compressed by {:?}, which was not offered",
                printable(&String::from_utf8_lossy(other))
            ));
        }
    };
    let value = call
        .method
        .decode(message)
        .map_err(|error| error.to_string())?;
    let json = serde_json::to_string_pretty(&value)
        .map_err(|error| format!("the message cannot be written as JSON: {error}"))?;
    Ok(json + "\n")
}

fn write_fields(fields: &FieldList, out: &mut String) {
    for (name, value) in fields.as_fields().iter() {
        let text = |bytes| printable(&String::from_utf8_lossy(bytes));
        out.push_str(&format!("{}: {}\n", text(name), text(value)));
    }
}
