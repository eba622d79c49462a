//! A request of which a part changes each time it is sent.

use trilane_wire::{Encoding, Request, RequestParts, Varying};

use crate::grpc::{MessageTemplate, Scratch};
use crate::plan::PlanError;
use crate::scenario::Values;
use crate::template::Template;

/// A request with the templates of what changes in it. Each worker has its own.
#[derive(Clone, Debug)]
pub(crate) struct Changing {
    request: Varying,
    /// Of the path, where it changes, and of each field that does, in order.
    pieces: Vec<Template>,
    path_varies: bool,
    body: Option<Body>,
    written: Written,
}

/// The content of a request, where it changes.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// Text.
    Text(Template),
    /// The message of a gRPC call, which is encoded anew.
    Message(MessageTemplate, Scratch),
}

/// What was written last: the pieces one behind the other, where each ends, and the body.
#[derive(Clone, Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    body: Vec<u8>,
}

impl Written {
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let piece = &self.bytes[start..end];
            start = end;
            piece
        })
    }
}

impl Changing {
    /// `parts` has what stays, `fields` are the names and templates of those that do not; the content of one
    /// that `is_streamed` follows it.
    pub(crate) fn new(
        parts: &RequestParts<'_>,
        path: Template,
        fields: Vec<(String, Template)>,
        body: Option<Body>,
        is_streamed: bool,
    ) -> Result<Self, PlanError> {
        let wrong = |error: trilane_wire::RequestError| PlanError::Usage(error.to_string());
        let names: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let path_varies = !path.is_fixed();
        let request = if is_streamed {
            Varying::streamed(parts, path_varies, &names)
        } else {
            Varying::new(parts, path_varies, &names, body.is_some())
        };
        let request = request.map_err(wrong)?;
        let pieces = path_varies.then_some(path).into_iter();
        let pieces: Vec<_> = pieces
            .chain(fields.into_iter().map(|(_, value)| value))
            .collect();
        let mut changing = Self {
            request,
            pieces,
            path_varies,
            body,
            written: Written::default(),
        };
        // Numbers and UUIDs are fit for every place; values of a file are as they are.
        let period = changing
            .pieces
            .iter()
            .map(Template::period)
            .max()
            .unwrap_or(1);
        for number in 0..period {
            changing.fill_head(number, Values::NONE);
            let checked = changing.request.check(changing.written.pieces());
            checked.map_err(wrong)?;
        }
        Ok(changing)
    }

    fn fill_head(&mut self, number: u64, values: Values<'_>) {
        let Written { bytes, ends, .. } = &mut self.written;
        bytes.clear();
        ends.clear();
        for piece in &self.pieces {
            piece.write(number, values, bytes);
            ends.push(bytes.len());
        }
    }

    fn fill_body(&mut self, number: u64, values: Values<'_>) -> Result<(), String> {
        let body = &mut self.written.body;
        body.clear();
        match &mut self.body {
            None => Ok(()),
            Some(Body::Text(template)) => {
                template.write(number, values, body);
                Ok(())
            }
            Some(Body::Message(message, scratch)) => message.write(number, scratch, body),
        }
    }

    /// The variables in it, by index.
    pub(crate) fn variables(&self) -> impl Iterator<Item = usize> {
        let body = self.body.iter().filter_map(|body| match body {
            Body::Text(template) => Some(template),
            Body::Message(..) => None,
        });
        self.pieces.iter().chain(body).flat_map(Template::variables)
    }

    /// Path and query of the request of this number with what `values` says; `None` where they do not
    /// change.
    pub(crate) fn path(&self, number: u64, values: Values<'_>) -> Option<String> {
        let path = self.pieces.first().filter(|_| self.path_varies)?;
        let mut out = Vec::new();
        path.write(number, values, &mut out);
        String::from_utf8(out).ok()
    }

    /// The request of this number with what `values` says, for a connection of this version. An error says
    /// why its content is none.
    #[inline]
    pub(crate) fn write(
        &mut self,
        version: Encoding,
        number: u64,
        values: Values<'_>,
    ) -> Result<&Request, String> {
        self.fill_head(number, values);
        self.fill_body(number, values)?;
        let written = &self.written;
        Ok(self.request.write(version, written.pieces(), &written.body))
    }
}
