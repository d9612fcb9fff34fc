//! The admission chain of every write: its stages and their order.
//!
//! | stage | what happens | how |
//! |---|---|---|
//! | default | sets the defaults of fields that the client omits | the kind |
//! | own | records the owners of the sent fields | `ownership` |
//! | mutate | the server adds what it knows, or rejects; then webhooks and other reviewers | [`PlugIn::mutate`] |
//! | default what was added | if a reviewer changed the object: defaults, and the server's mutators, again | |
//! | authorize | a user cannot grant rights that they do not have | [`PlugIn::authorize`] |
//! | prepare | copies or clears the status, drops fields whose gate is off, increments the generation | the kind |
//! | validate | returns the errors and warnings of the complete object | the kind |
//! | validating admission | the server rejects or warns; then webhooks and other reviewers | [`PlugIn::validate`] |
//! | own what was applied | records the owners of fields after an apply | `ownership` |
//! | record | the server records facts about the write, without an owner | [`PlugIn::record`] |
//! | charge | takes limited resources: quotas, addresses, ports | [`PlugIn::charge`] |
//! | store | compare-and-set | `storing` |
//! | settle, or give back | checks the charges after the write, or gives them back | [`PlugIn::settle`], [`PlugIn::give_back`] |
//! | follow up | the registry executes the follow-up writes before the response | [`PlugIn::entails`], `crate::entailed` |
//!
//! Each stage runs the plug-ins of [`ORDER`] that take part in it, in that order. No charge is held during a call to a
//! reviewer. Charges come later and are given back if the write fails. After a conflict, a write goes through the whole
//! chain again. A create whose generated name exists repeats from `prepare` on, as upstream. Between two long stages,
//! other tasks run.
//!
//! Source: upstream `kubeapiserver/options/plugins.go` (the order of plug-ins), `apiserver/pkg/registry/generic/registry/store.go`.

use super::{
    Admission, Charges, Entailed, Happened,
    plug_in::{Chain, PlugIn},
    rollout_records, storing,
};
use crate::{ApiError, Current, failure::Failure, storage::Storage};

fn refused_by<P: PlugIn>(error: ApiError) -> ApiError {
    error.refused_by(P::NAME)
}

macro_rules! chain {
    ($($file:ident::$plug_in:ident,)*) => {
        /// The names of all plug-ins, in their order.
        pub const ORDER: &[&str] = &[$(super::$file::$plug_in::NAME,)*];

        impl Chain {
            async fn mutate(&self, admission: &mut Admission<'_>) -> Result<(), ApiError> {
                $(super::$file::$plug_in::mutate(self, admission).await.map_err(refused_by::<super::$file::$plug_in>)?;)*
                Ok(())
            }

            async fn authorize_write(&self, admission: &Admission<'_>) -> Result<(), ApiError> {
                $(super::$file::$plug_in::authorize(self, admission).await.map_err(refused_by::<super::$file::$plug_in>)?;)*
                Ok(())
            }

            /// Runs validating admission.
            ///
            /// # Errors
            /// The first rejection.
            pub(crate) async fn validate(&self, admission: &mut Admission<'_>) -> Result<(), ApiError> {
                $(super::$file::$plug_in::validate(self, admission).await.map_err(refused_by::<super::$file::$plug_in>)?;)*
                Ok(())
            }

            fn record(&self, admission: &mut Admission<'_>) {
                $(super::$file::$plug_in::record(self, admission);)*
            }

            async fn charge(&self, admission: &mut Admission<'_>, charges: &mut Charges) -> Result<(), ApiError> {
                $(super::$file::$plug_in::charge(self, admission, charges).await.map_err(refused_by::<super::$file::$plug_in>)?;)*
                Ok(())
            }

            async fn settle(&self, admission: &Admission<'_>, charges: &Charges) -> Result<(), ApiError> {
                $(super::$file::$plug_in::settle(self, admission, charges).await.map_err(refused_by::<super::$file::$plug_in>)?;)*
                Ok(())
            }

            async fn give_back(&self, mut charges: Charges) {
                $(super::$file::$plug_in::give_back(self, &mut charges).await;)*
            }
        }

        /// Returns the follow-up writes of a stored write. Most writes have none, at no cost.
        pub(crate) fn entailed_by(happened: &Happened<'_>) -> Vec<Entailed> {
            let mut entailed = Vec::new();
            $(entailed.extend(super::$file::$plug_in::entails(happened));)*
            entailed
        }
    };
}

// Upstream's order. Reviewers come last, before the charges.
chain![
    namespace_lifecycle::NamespaceLifecycle,
    limit_ranger::LimitRanger,
    service_account::ServiceAccount,
    pod_security::PodSecurity,
    priority::Priority,
    default_toleration_seconds::DefaultTolerationSeconds,
    default_storage_class::DefaultStorageClass,
    storage_object_in_use_protection::StorageObjectInUseProtection,
    runtime_class::RuntimeClass,
    certificates::CertificateRequester,
    certificates::CertificateApproval,
    certificates::CertificateSigning,
    certificates::CertificateSubjectRestriction,
    rollout_records::RolloutRecords,
    root_ca::RootCa,
    aggregated_roles::AggregatedRoles,
    escalation::Escalation,
    reviewers::Reviewers,
    room::StoreRoom,
    resource_quota::ResourceQuota,
    service_allocation::ServiceAllocation,
];

impl Chain {
    /// Runs the chain up to `authorize`. The object then has its final content but is not validated.
    ///
    /// # Errors
    /// The first rejection.
    pub(crate) async fn admit(&self, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        admission.since.pause(&*self.clock).await;
        admission.set_defaults();
        admission.dedup_owners();
        rollout_records::keep_stored(self, admission);
        admission.record_owners_of_sent();
        self.mutate(admission).await?;
        if admission.take_changed_outside() {
            admission.set_defaults();
            self.mutate(admission).await?;
        }
        self.authorize_write(admission).await
    }

    /// Runs the chain from `prepare` to the store.
    ///
    /// # Errors
    /// Field errors, the first rejection, or a conflict. Nothing stays charged.
    pub(crate) async fn complete(&self, storage: &Storage, admission: &mut Admission<'_>) -> Result<Current, Failure> {
        admission.since.pause(&*self.clock).await;
        admission.prepare(&self.gates);
        admission.since.pause(&*self.clock).await;
        admission.check(&self.gates)?;
        self.validate(admission).await?;
        admission.since.pause(&*self.clock).await;
        admission.record_decided_owners();
        self.record(admission);
        admission.since.pause(&*self.clock).await;
        self.execute(storage, admission).await
    }

    /// Runs the end of the chain: charge, store, settle or give back.
    ///
    /// # Errors
    /// A charge without room, a conflict, or an error of the store. Nothing stays charged, unless the outcome of the
    /// write is unknown.
    pub(crate) async fn execute(&self, storage: &Storage, admission: &mut Admission<'_>) -> Result<Current, Failure> {
        let mut charges = Charges::default();
        if let Err(refused) = self.charge(admission, &mut charges).await {
            self.give_back(charges).await;
            return Err(refused.into());
        }
        let failure = match self.commit(storage, admission).await {
            Ok(current) => match self.settle(admission, &charges).await {
                Ok(()) => return Ok(current),
                Err(lost) => storing::undo(storage, admission, &current).await.err().unwrap_or(lost).into(),
            },
            Err(failure) => failure,
        };
        if !failure.is_unknown() {
            self.give_back(charges).await;
        }
        Err(failure)
    }
}
