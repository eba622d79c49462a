//! A request of which a part changes each time it is sent.

use trilane_wire::{Encoding, Request, RequestParts, Varying};

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
    body: Option<Template>,
    written: Written,
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
    /// `parts` has what stays, `fields` are the names and templates of those that do not.
    pub(crate) fn new(
        parts: &RequestParts<'_>,
        path: Template,
        fields: Vec<(String, Template)>,
        body: Option<Template>,
    ) -> Result<Self, PlanError> {
        let wrong = |error: trilane_wire::RequestError| PlanError::Usage(error.to_string());
        let names: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let path_varies = !path.is_fixed();
        let request = Varying::new(parts, path_varies, &names, body.is_some()).map_err(wrong)?;
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
            changing.fill(number, Values::NONE);
            let checked = changing.request.check(changing.written.pieces());
            checked.map_err(wrong)?;
        }
        Ok(changing)
    }

    fn fill(&mut self, number: u64, values: Values<'_>) {
        let Written { bytes, ends, body } = &mut self.written;
        bytes.clear();
        ends.clear();
        body.clear();
        for piece in &self.pieces {
            piece.write(number, values, bytes);
            ends.push(bytes.len());
        }
        if let Some(template) = &self.body {
            template.write(number, values, body);
        }
    }

    /// The variables in it, by index.
    pub(crate) fn variables(&self) -> impl Iterator<Item = usize> {
        let templates = self.pieces.iter().chain(&self.body);
        templates.flat_map(Template::variables)
    }

    /// Path and query of the request of this number with what `values` says; `None` where they do not
    /// change.
    pub(crate) fn path(&self, number: u64, values: Values<'_>) -> Option<String> {
        let path = self.pieces.first().filter(|_| self.path_varies)?;
        let mut out = Vec::new();
        path.write(number, values, &mut out);
        String::from_utf8(out).ok()
    }

    /// The request of this number with what `values` says, for a connection of this version.
    #[inline]
    pub(crate) fn write(&mut self, version: Encoding, number: u64, values: Values<'_>) -> &Request {
        self.fill(number, values);
        let written = &self.written;
        self.request.write(version, written.pieces(), &written.body)
    }
}
