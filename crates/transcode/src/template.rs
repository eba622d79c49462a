//! Path templates, by the grammar of `google/api/http.proto`:
//!
//! ```text
//! Template  = "/" Segments [ Verb ] ;
//! Segments  = Segment { "/" Segment } ;
//! Segment   = "*" | "**" | LITERAL | Variable ;
//! Variable  = "{" FieldPath [ "=" Segments ] "}" ;
//! FieldPath = IDENT { "." IDENT } ;
//! Verb      = ":" LITERAL ;
//! ```

use std::fmt;

use crate::path;

/// A template, flattened: what a variable stands for is among the segments, and the variable says where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) segments: Vec<Segment>,
    pub(crate) verb: Option<Box<str>>,
    pub(crate) variables: Vec<Variable>,
}

/// What one segment of a path has to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// This text, after percent-decoding.
    Literal(Box<str>),
    /// `*`: anything.
    Any,
    /// `**`: this and all that follow, or nothing.
    Rest,
}

/// A field of the request that takes a part of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) field_path: Box<str>,
    /// The first segment.
    pub(crate) start: usize,
    /// The segment after the last; `None` where the last is `**`.
    pub(crate) end: Option<usize>,
    /// The segment `**`, where it ends with one.
    pub(crate) rest: Option<usize>,
}

impl Variable {
    /// Whether the variable holds exactly one segment, which decides how it is percent-decoded.
    pub(crate) fn is_single(&self) -> bool {
        self.end == Some(self.start + 1)
    }
}

/// Where and why a template is not one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TemplateError {
    /// In bytes, from 0.
    pub(crate) column: usize,
    pub(crate) reason: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at column {}", self.reason, self.column + 1)
    }
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parser = Parser {
            text,
            at: 0,
            template: Template {
                segments: Vec::new(),
                verb: None,
                variables: Vec::new(),
            },
        };
        parser.expect(b'/')?;
        parser.segments(false)?;
        if parser.take(b':') {
            parser.template.verb = Some(parser.literal("a verb")?);
        }
        if parser.at < text.len() {
            return Err(parser.unexpected("'/', ':' or the end"));
        }
        Ok(parser.template)
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    template: Template,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is = self.peek() == Some(byte);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, byte: u8) -> Result<(), TemplateError> {
        if self.take(byte) {
            return Ok(());
        }
        Err(self.unexpected(&format!("{:?}", char::from(byte))))
    }

    fn error(&self, reason: impl Into<String>) -> TemplateError {
        TemplateError {
            column: self.at,
            reason: reason.into(),
        }
    }

    fn unexpected(&self, wanted: &str) -> TemplateError {
        match self.text[self.at..].chars().next() {
            Some(found) => self.error(format!("{found:?} stands where {wanted} is expected")),
            None => self.error(format!("the template ends where {wanted} is expected")),
        }
    }

    fn segments(&mut self, in_variable: bool) -> Result<(), TemplateError> {
        loop {
            if self.template.segments.last() == Some(&Segment::Rest) {
                return Err(self.error("'**' has to be the last segment, but another follows"));
            }
            self.segment(in_variable)?;
            if !self.take(b'/') {
                return Ok(());
            }
        }
    }

    fn segment(&mut self, in_variable: bool) -> Result<(), TemplateError> {
        let segment = match self.peek() {
            Some(b'*') => {
                self.at += 1;
                if self.take(b'*') {
                    Segment::Rest
                } else {
                    Segment::Any
                }
            }
            Some(b'{') if in_variable => {
                return Err(self.error("a variable must not contain another variable"));
            }
            Some(b'{') => return self.variable(),
            _ => Segment::Literal(self.literal("a segment")?),
        };
        self.template.segments.push(segment);
        Ok(())
    }

    fn variable(&mut self) -> Result<(), TemplateError> {
        self.expect(b'{')?;
        let field_path = self.field_path()?;
        let start = self.template.segments.len();
        if self.take(b'=') {
            self.segments(true)?;
        } else {
            self.template.segments.push(Segment::Any);
        }
        self.expect(b'}')?;
        let end = self.template.segments.len();
        let is_open = self.template.segments.last() == Some(&Segment::Rest);
        let variables = &mut self.template.variables;
        if variables.iter().any(|other| other.field_path == field_path) {
            let reason = format!("the variable {field_path:?} stands there twice");
            return Err(self.error(reason));
        }
        variables.push(Variable {
            field_path,
            start,
            end: (!is_open).then_some(end),
            rest: is_open.then_some(end - 1),
        });
        Ok(())
    }

    fn field_path(&mut self) -> Result<Box<str>, TemplateError> {
        let start = self.at;
        loop {
            match self.peek() {
                Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {}
                _ => return Err(self.unexpected("the name of a field")),
            }
            self.skip(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !self.take(b'.') {
                return Ok(self.text[start..self.at].into());
            }
        }
    }

    /// A literal in its decoded form. Its characters are those of a segment of a URL (RFC 3986,
    /// section 3.3) except those that mean something in a template: `*` and `:`.
    fn literal(&mut self, what: &str) -> Result<Box<str>, TemplateError> {
        let start = self.at;
        self.skip(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()+,;=@%".contains(&byte));
        if self.at == start {
            return Err(self.unexpected(what));
        }
        let text = &self.text[start..self.at];
        match path::decode(text, path::Slashes::Decoded) {
            Ok(decoded) => Ok(decoded.into()),
            Err(reason) => {
                self.at = start;
                Err(self.error(reason))
            }
        }
    }

    fn skip(&mut self, accepted: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&accepted) {
            self.at += 1;
        }
    }
}
