//! Path templates as OpenAPI writes them: a parameter for each wildcard.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    binding::{Binding, Parameter},
    template::{Segment, Template},
};

/// What stays as it is in a segment of a path (RFC 3986 section 3.3), but for the colon, behind which
/// a verb would stand.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// A path, cut where its parameters are: one piece more than there are parameters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape(Vec<String>);

/// A parameter of a path.
pub(super) struct Wildcard<'b> {
    pub(super) name: String,
    /// The variable that it is a part of.
    pub(super) variable: Option<&'b Parameter>,
    /// Whether it is all of the variable, and one segment.
    pub(super) is_whole: bool,
    /// Whether it stands for any number of segments.
    pub(super) is_rest: bool,
}

impl Shape {
    /// The key among the paths, with these names of the parameters.
    pub(super) fn key<S: AsRef<str>>(&self, names: &[S]) -> String {
        let mut key = String::new();
        for (number, piece) in self.0.iter().enumerate() {
            key += piece;
            if let Some(name) = names.get(number) {
                key += &format!("{{{}}}", name.as_ref());
            }
        }
        key
    }
}

/// The path of a binding.
pub(super) fn read<'b>(binding: &'b Binding, template: &Template) -> (Shape, Vec<Wildcard<'b>>) {
    let mut pieces = vec![String::new()];
    let mut wildcards = Vec::new();
    for (place, segment) in template.segments.iter().enumerate() {
        add(&mut pieces, "/");
        if let Segment::Literal(text) = segment {
            add(&mut pieces, &utf8_percent_encode(text, SEGMENT).to_string());
            continue;
        }
        wildcards.push(wildcard(binding, template, place));
        pieces.push(String::new());
    }
    if let Some(verb) = &template.verb {
        add(&mut pieces, ":");
        add(&mut pieces, &utf8_percent_encode(verb, SEGMENT).to_string());
    }
    (Shape(pieces), wildcards)
}

/// Adds to the last piece.
fn add(pieces: &mut [String], text: &str) {
    if let Some(last) = pieces.last_mut() {
        last.push_str(text);
    }
}

fn wildcard<'b>(binding: &'b Binding, template: &Template, place: usize) -> Wildcard<'b> {
    let is_rest = template.segments[place] == Segment::Rest;
    let covers = |parameter: &&Parameter| {
        let variable = &parameter.variable;
        let before_end = variable.end.is_none_or(|end| place < end);
        variable.start <= place && before_end
    };
    let Some(parameter) = binding.parameters().iter().find(covers) else {
        // A hyphen is in no name of a field.
        return Wildcard {
            name: format!("segment-{}", place + 1),
            variable: None,
            is_whole: false,
            is_rest,
        };
    };
    let variable = &parameter.variable;
    let is_alone = variable.is_single() || variable.rest == Some(variable.start);
    let before = &template.segments[variable.start..place];
    let number = before
        .iter()
        .filter(|segment| !matches!(segment, Segment::Literal(_)))
        .count();
    Wildcard {
        name: match is_alone {
            true => variable.field_path.to_string(),
            false => format!("{}-{}", variable.field_path, number + 1),
        },
        variable: Some(parameter),
        is_whole: variable.is_single(),
        is_rest,
    }
}
