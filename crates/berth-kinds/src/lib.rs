//! Kinds as data: what a kind is called, in which versions it is served, what its objects hold, how versions convert.
//!
//! Start with [`Definition`]: what an author writes. [`Definition::check`] finds what contradicts itself, and [`Kind::new`] makes of it what objects
//! have with them. A [`Document`] is an object of such a kind: JSON and typed metadata. A [`Structural`] schema sets its defaults, prunes it and
//! validates it. A [`Strategy`] has the few rules that a schema cannot express.
//!
//! No clock, no randomness, no IO, no async: every function here returns the same result for the same input.

pub mod built_in;
mod content;
mod conversion;
pub mod custom;
mod definition;
mod document;
mod expressions;
mod json_path;
mod kind;
mod members;
mod reading;
mod source;
mod strategy;
mod structural;
pub mod version_priority;
mod webhook_client;

pub use content::Content;
pub use conversion::{Conversion, ConversionError, ConversionWebhook, Convert, ConvertError};
pub use definition::{Cell, Column, Definition, Form, Names, ScalePaths, SelectableField, Version};
pub use document::Document;
pub use expressions::{ExpressionError, Expressions, NamedVariables, REQUEST_RESOURCE, Wanted};
pub use json_path::{JsonPath, JsonPathError};
pub use kind::{Kind, KindVersion, Published};
pub use reading::encode;
pub use source::Source;
pub use strategy::Strategy;
pub use structural::{
    Additional, Components, DEPTH_MAX, FAULTS_MAX, ListType, MapType, Pattern, PatternError, SharedTypes, Structural, Type, Values,
};
