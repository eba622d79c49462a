//! What lines of JSON and scenarios both have: values of fields, and what is expected of a response.

use serde::Deserialize;
use trilane_grpc::status::Code;

use crate::load::{code_names, status_ranges};

/// One value of a field, or several fields of a name.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a value in headers is text, or a list of texts")]
pub(super) enum Values {
    One(String),
    Many(Vec<String>),
}

impl Values {
    /// Name and value of each field.
    pub(super) fn fields(&self, name: &str) -> impl Iterator<Item = (String, String)> {
        let values = match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        };
        values
            .iter()
            .map(move |value| (name.to_owned(), value.clone()))
    }
}

/// What is expected of a response.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with the key status")]
pub(super) struct Expectation {
    /// Such as 200, or `200-299,404`.
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a status is a number such as 200, or text such as \"200-299,404\""
)]
enum Status {
    Code(u16),
    Ranges(String),
}

impl Expectation {
    /// Whether anything is.
    pub(super) fn is_some(&self) -> bool {
        self.status.is_some()
    }

    /// Codes of gRPC that count as ok; empty: those of the run.
    pub(super) fn codes(&self) -> Result<Vec<Code>, String> {
        match &self.status {
            None => Ok(Vec::new()),
            Some(Status::Code(code)) => code_names(&code.to_string()),
            Some(Status::Ranges(text)) => code_names(text),
        }
    }

    /// Ranges of status codes that count as ok; empty: those of the run.
    pub(super) fn statuses(&self) -> Result<Vec<(u16, u16)>, String> {
        match &self.status {
            None => Ok(Vec::new()),
            Some(Status::Code(code)) => status_ranges(&code.to_string()),
            Some(Status::Ranges(text)) => status_ranges(text),
        }
    }
}
