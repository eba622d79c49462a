//! The messages of `grpc/reflection/v1/reflection.proto`; those of `v1alpha` have the same fields.

/// A question.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Request {
    #[prost(string, tag = "1")]
    pub(super) host: String,
    #[prost(oneof = "Question", tags = "3, 4, 7")]
    pub(super) question: Option<Question>,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub(super) enum Question {
    #[prost(string, tag = "3")]
    FileByFilename(String),
    #[prost(string, tag = "4")]
    FileContainingSymbol(String),
    /// Its content is not looked at.
    #[prost(string, tag = "7")]
    ListServices(String),
}

/// An answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Response {
    #[prost(oneof = "Answer", tags = "4, 6, 7")]
    pub(super) answer: Option<Answer>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Answer {
    #[prost(message, tag = "4")]
    Files(Files),
    #[prost(message, tag = "6")]
    Services(Services),
    #[prost(message, tag = "7")]
    Error(Failure),
}

/// Encoded `FileDescriptorProto`s.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Files {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) file: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Services {
    #[prost(message, repeated, tag = "1")]
    pub(super) service: Vec<Service>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Service {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Failure {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
}
