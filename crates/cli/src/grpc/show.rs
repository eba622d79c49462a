//! `--show`: one call by the engine, of which the response is printed.

use std::path::Path;

use serde_json::{Value, json};
use trilane_engine::{Call, Grpc, Options, Outcome, Plan, PlanError, Protocol, Response};
use trilane_grpc::status::Code;
use trilane_wire::FieldList;

use crate::interrupt::Interrupt;
use crate::output::write_result;
use crate::report::printable;
use crate::{FAILED, INTERRUPTED, OK, code_of, complain};

/// A call that has ended.
struct Shown<'a> {
    call: &'a Call,
    options: &'a Options,
    outcome: &'a Outcome,
    grpc: &'a Grpc,
}

/// Makes the first of the calls, prints head, messages and trailers, and gives the exit code: 0 where its
/// status is one of those that count as ok.
pub(crate) fn show(options: &Options, is_json: bool, output: Option<&Path>) -> u8 {
    let (call, options) = match once(options) {
        Ok(once) => once,
        Err(error) => {
            complain(&error);
            return code_of(&error);
        }
    };
    let plan = match Plan::new(&options) {
        Ok(plan) => plan,
        Err(error) => {
            complain(&error);
            return code_of(&error);
        }
    };
    let outcome = match trilane_engine::run(&plan, &Interrupt::catch().next()) {
        Ok(outcome) => outcome,
        Err(error) => {
            complain(error);
            return FAILED;
        }
    };
    if outcome.interrupted {
        return INTERRUPTED;
    }
    let Some(grpc) = &outcome.grpc else {
        return FAILED;
    };
    let shown = Shown {
        call: &call,
        options: &options,
        outcome: &outcome,
        grpc,
    };
    let text = match is_json {
        true => shown.json().to_string(),
        false => shown.text(),
    };
    if let Err(error) = write_result(text, output) {
        complain(error);
        return FAILED;
    }
    match shown.is_ok() {
        true => OK,
        false => {
            if let Some((_, told)) = shown.failure() {
                complain(told);
            }
            FAILED
        }
    }
}

/// The first of the calls, and a run of it alone.
fn once(options: &Options) -> Result<(Call, Options), PlanError> {
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
    let mut one = Options {
        listed: options.listed.iter().take(1).cloned().collect(),
        urls: options.urls.iter().take(1).cloned().collect(),
        weights: Vec::new(),
        connections: 1,
        streams: 1,
        threads: 1,
        requests: Some(1),
        duration: None,
        warmup: None,
        rate: None,
        rate_per_connection: None,
        stages: Vec::new(),
        stages_in_flight: Vec::new(),
        shed_after: None,
        ..options.clone()
    };
    one.calls.keeps = true;
    Ok((call.clone(), one))
}

impl Shown<'_> {
    fn is_ok(&self) -> bool {
        self.outcome.requests.ok > 0
    }

    /// The status with which the call ended, as a client of gRPC sees it.
    fn code(&self) -> Code {
        let name = self.grpc.status.keys().next();
        name.and_then(|name| Code::named(name))
            .unwrap_or(Code::Unknown)
    }

    /// Why the call is not ok: the kind of failure, and what there is to say of it.
    fn failure(&self) -> Option<(&'static str, &str)> {
        let (kind, failure) = self.outcome.requests.failures.iter().next()?;
        Some((*kind, failure["example"].as_str().unwrap_or_default()))
    }

    /// Whether we gave up a stream that went on.
    fn is_given_up(&self) -> bool {
        self.is_ok()
            && self.options.calls.stream_duration.is_some()
            && self.code() == Code::Cancelled
    }

    /// A message as JSON, on one line.
    fn written(&self, message: &[u8]) -> Result<String, String> {
        let message = self.call.method.decode(message);
        let message = message.map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        let unwritten = |error: String| format!("the message cannot be written as JSON: {error}");
        trilane_grpc::json::write(&message, &mut out).map_err(unwritten)?;
        String::from_utf8(out).map_err(|error| unwritten(error.to_string()))
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(response) = &self.grpc.response {
            text.push_str(&format!("HTTP {}\n", response.http));
            write_fields(&response.head, &mut text);
            for message in &response.messages {
                text.push('\n');
                match self.written(message) {
                    Ok(line) => text.push_str(&format!("{}\n", pretty(&line))),
                    Err(error) => text.push_str(&format!("({error})\n")),
                }
            }
            if response.is_cut {
                text.push_str("\n(cut here: the response goes on)\n");
            }
            if !response.content.is_empty() {
                let content = String::from_utf8_lossy(&response.content);
                text.push_str(&format!("\n{}\n", printable(&content)));
            }
            if self.is_given_up() {
                text.push_str("\n(given up here: the stream goes on)\n");
            }
            text.push('\n');
            write_fields(&response.trailers, &mut text);
        }
        let code = self.code();
        text.push_str(&format!("{} {code}\n", code as u32));
        text
    }

    fn json(&self) -> Value {
        let response = self.grpc.response.as_ref();
        let kind = self.call.method.kind();
        let messages = response.map_or(&[][..], |response| &response.messages);
        let messages: Vec<_> = messages
            .iter()
            .map(|message| {
                let read = |line: String| serde_json::from_str(&line).map_err(|e| e.to_string());
                match self.written(message).and_then(read) {
                    Ok(value) => value,
                    // A message that has no JSON, such as one with an Any of a type that nobody described.
                    Err(error) => json!({ "error": error }),
                }
            })
            .collect();
        let content = |response: &Response| {
            let content = String::from_utf8_lossy(&response.content).into_owned();
            (!content.is_empty()).then_some(content)
        };
        let is_connect = self.options.calls.protocol == Protocol::Connect;
        let code = self.code();
        json!({
            "schema": "trilane.response/1",
            "method": self.call.method.full_name(),
            "protocol": self.grpc.protocol,
            "version": self.outcome.target.version,
            "ok": self.is_ok(),
            "status": {"code": code as u32, "name": code.name()},
            "failure": self.failure().map(|(kind, told)| json!({"kind": kind, "text": told})),
            "http": response.map(|response| response.http),
            "head": response.map(|response| fields(&response.head)),
            "messages": messages,
            "trailers": response.map(|response| fields(&response.trailers)),
            "connect_error": response
                .filter(|_| is_connect)
                .and_then(|response| response.connect_error(kind)),
            "content": response.and_then(content),
            "cut": response.is_some_and(|response| response.is_cut),
            "sent": self.grpc.messages["sent"],
        })
    }
}

/// JSON of one line over several, its fields in their order.
fn pretty(line: &str) -> String {
    let mut out = String::with_capacity(line.len() * 2);
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut chars = line.chars().peekable();
    let new_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(char) = chars.next() {
        if in_string {
            in_string = is_escaped || char != '"';
            is_escaped = !is_escaped && char == '\\';
            out.push(char);
            continue;
        }
        match char {
            '{' | '[' if matches!(chars.peek(), Some('}' | ']')) => {
                out.push(char);
                out.extend(chars.next());
            }
            '{' | '[' => {
                depth += 1;
                out.push(char);
                new_line(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(char);
            }
            ',' => {
                out.push(char);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_string = char == '"';
                out.push(char);
            }
        }
    }
    out
}

/// Names and values, in order.
fn fields(list: &FieldList) -> Vec<(String, String)> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let fields = list.as_fields();
    fields
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

fn write_fields(list: &FieldList, out: &mut String) {
    for (name, value) in fields(list) {
        out.push_str(&format!("{}: {}\n", printable(&name), printable(&value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_as_serde_does_it() {
        for line in [
            r#"{}"#,
            r#"{"any":{},"list":[],"text":"a:{\"b,[\\","n":[1,[2.5,null]],"o":{"x":{"y":true}}}"#,
        ] {
            let value: Value = serde_json::from_str(line).unwrap();
            let line = value.to_string();
            assert_eq!(pretty(&line), serde_json::to_string_pretty(&value).unwrap());
        }
    }
}
