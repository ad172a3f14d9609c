//! The messages of pprof's `profile.proto`, as far as they are used here.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub(super) sample_types: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(super) samples: Vec<ProfileSample>,
    #[prost(message, repeated, tag = "4")]
    pub(super) locations: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub(super) functions: Vec<Function>,
    /// The first one is always empty.
    #[prost(string, repeated, tag = "6")]
    pub(super) strings: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub(super) duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub(super) period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub(super) period: i64,
    #[prost(int64, repeated, tag = "13")]
    pub(super) comments: Vec<i64>,
    #[prost(int64, tag = "14")]
    pub(super) default_sample_type: i64,
}

/// What a value counts, and in which unit: indices of strings.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(int64, tag = "2")]
    pub(super) unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileSample {
    /// From the innermost on.
    #[prost(uint64, repeated, tag = "1")]
    pub(super) locations: Vec<u64>,
    /// One for each sample type.
    #[prost(int64, repeated, tag = "2")]
    pub(super) values: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) labels: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Label {
    #[prost(int64, tag = "1")]
    pub(super) key: i64,
    #[prost(int64, tag = "2")]
    pub(super) text: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    /// Several where functions were inlined, from the innermost on.
    #[prost(message, repeated, tag = "4")]
    pub(super) lines: Vec<ProfileLine>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ProfileLine {
    #[prost(uint64, tag = "1")]
    pub(super) function: u64,
    #[prost(int64, tag = "2")]
    pub(super) line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Function {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(int64, tag = "2")]
    pub(super) name: i64,
    #[prost(int64, tag = "3")]
    pub(super) system_name: i64,
    #[prost(int64, tag = "4")]
    pub(super) file: i64,
    #[prost(int64, tag = "5")]
    pub(super) first_line: i64,
}
