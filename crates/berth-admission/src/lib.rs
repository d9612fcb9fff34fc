//! Admission webhooks and policies: which requests they match, and the reviews that webhooks answer. Pure: no HTTP, no
//! clock, no async.
//!
//! Start with [`Constraints`]: the rules and selectors of a webhook, a policy or a binding. [`Constraints::matched`]
//! returns the version of the resource that they match. [`Reinvocation`] decides which of a reviewer's hooks are called
//! twice. A [`Webhook`] is one entry of a configuration. [`AdmissionReview`] is what it is sent, and [`read_verdict`]
//! reads its answer. A [`Policy`] is a policy with compiled expressions. Both have [`MatchConditions`]. A
//! [`ConversionReview`] is what a conversion webhook is sent, and [`read_converted`] reads its answer.
//!
//! Source: kubernetes `apiserver/pkg/admission/plugin/webhook`, `apiserver/pkg/admission/plugin/policy/matching`,
//! version 1.36.

mod constraints;
mod conversion;
mod failure_policy;
mod policy;
mod reinvocation;
mod request;
mod review;
mod rights;
mod rule;
mod webhook;

pub use constraints::{Constraints, MatchPolicy};
pub use conversion::{ConversionFault, ConversionReview, read_converted};
pub use failure_policy::FailurePolicy;
pub use policy::{
    AuditAnnotations, CHECKED_KINDS_MAX, Change, ConditionsResult, Data, ErrorType, Finding, FindingSource, MUTATING, MatchConditions,
    Matching, Mutated, MutationBudget, NotFound, ParamKind, ParamQuery, ParamRef, ParamsError, Policy, PolicyBinding, PolicyDenial,
    TypeWarning, VALIDATING, VALIDATION_FAILURE, Validated, ValidationAction, type_warnings, validation_failure,
};
pub use reinvocation::Reinvocation;
pub use request::{Form, Operation, Request};
pub use review::{AdmissionReview, Denial, DenialCause, DenialDetails, Hook, ReviewFault, Verdict, read_verdict};
pub use rights::Rights;
pub use rule::{Rule, RuleScope};
pub use webhook::{Client, ReviewVersion, ServiceReference, Target, Webhook};
