//! `google.api.http` by descriptor: requests of HTTP become messages of gRPC, and back.
//!
//! The rules stand in the options of the methods (`google/api/annotations.proto`), so nothing is
//! generated: a [`Router`] reads them from a descriptor pool. The crate owns no socket and no runtime:
//! request line, query and content come in as arguments, messages and content go out.
//!
//! ```
//! # use prost_reflect::DescriptorPool;
//! # use trilane_transcode::{Format, Found, Router};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut compiler = protox::Compiler::new(["../../proto"])?;
//! # compiler.include_imports(true).open_file("trilane/library/v1/library.proto")?;
//! # let pool = DescriptorPool::decode(compiler.encode_file_descriptor_set().as_slice())?;
//! let router = Router::new(&pool)?;
//! let Found::Match(found) = router.find("GET", "/v1/shelves/1/books/2") else { panic!() };
//! assert_eq!(found.binding.grpc_path(), "/trilane.library.v1.Library/GetBook");
//! let request = found.request(None, Format::Json, b"")?;
//! let name = request.get_field_by_name("name").ok_or("no such field")?;
//! assert_eq!(name.as_str(), Some("shelves/1/books/2"));
//! # Ok(())
//! # }
//! ```
//!
//! What the specification leaves open is decided so:
//!
//! - Path variables go before fields of the content; a query parameter must not set what the path or
//!   the content holds ("URL query parameters … are mapped to (c) fields").
//! - `*` matches an empty segment too, as RFC 3986 counts it as one.
//! - A verb is split off at the last colon of the last segment where a template with this verb matches;
//!   elsewhere the colon is a part of the segment.
//! - Names in paths of rules and in queries are JSON names or original names.
//! - Two fields of one oneof are refused wherever they come from: the path, the content or the query.
//! - Content that a rule maps to a `google.api.HttpBody` is taken and given as it is.
//!
//! JSON is that of [`trilane_grpc::json`].
//!
//! Bounds: messages nest at most 100 deep in a query and in JSON, as in binary Protocol Buffers. The
//! time of everything grows with the length of the request and the number of rules, so that a server's
//! limits of head and content are limits here.

mod binding;
pub mod connect;
mod content;
mod format;
mod openapi;
mod path;
mod problem;
mod query;
mod raw;
mod router;
mod rule;
mod service_config;
mod status;
mod template;
mod trie;
pub mod twirp;
mod value;

pub use binding::Binding;
pub use format::Format;
pub use openapi::{Info, document as openapi};
pub use problem::{Problem, http_status};
pub use raw::RawContent;
pub use router::{Found, Match, Router};
pub use rule::{RuleError, is_without_side_effects};
pub use service_config::ServiceConfig;
pub use status::status_content;
