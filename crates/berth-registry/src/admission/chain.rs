//! The chain that every write goes through: what runs, and in which order.
//!
//! | stage | what happens | how |
//! |---|---|---|
//! | default | what the client may leave out is filled in | the kind |
//! | own | who owns which field of what the client sent | `ownership` |
//! | mutate | the server adds what it knows, or refuses; then whoever is asked outside | [`PlugIn::mutate`] |
//! | default what was added | where somebody outside has changed the object: defaults, and the server's own mutators, once more | |
//! | authorize | nobody grants what they do not have | [`PlugIn::authorize`] |
//! | prepare | the status is taken over or cleared, fields whose gate is off go, the generation rises | the kind |
//! | validate | the object is complete now: its faults and warnings | the kind |
//! | validating admission | the server says no, or remarks; then whoever is asked outside | [`PlugIn::validate`] |
//! | own what was applied | who owns which field after an apply | `ownership` |
//! | record | the server notes on the object what it knows of the write; nobody owns that | [`PlugIn::record`] |
//! | charge | what is bounded is taken: quotas, addresses, ports | [`PlugIn::charge`] |
//! | store | compare-and-set | `storing` |
//! | settle, or give back | what was taken is still there, or goes back | [`PlugIn::settle`], [`PlugIn::give_back`] |
//! | follow up | what the write entails, before it is answered | [`PlugIn::follow_up`] |
//!
//! Each stage runs the plug-ins of [`ORDER`] that take part in it, in that order. Nothing is held while somebody outside is asked: charges
//! come after that, and go back when the write fails. A write that is tried again because another writer was first goes through all of it
//! again; a create whose generated name was taken, from `prepare` on, as upstream. Between two stages that take long others have their turn.
//!
//! Source: upstream `kubeapiserver/options/plugins.go` (the order of plug-ins), `apiserver/pkg/registry/generic/registry/store.go`.

use super::{Admission, Charges, Happened, rollout_records, storing::Failure};
use crate::{ApiError, Current, Registry};
use std::future::ready;

/// A step of the chain. It takes part in the stages whose methods it has; each is told everything and picks what concerns it.
///
/// Steps are called one after the other, by their types: what has nothing to do costs nothing.
pub(crate) trait PlugIn {
    /// As upstream calls it, where it has it.
    const NAME: &'static str;

    /// Changes an object that is created or changed, or refuses it. It has its defaults and was not validated. May run twice on one object.
    fn mutate(_api: &Registry, _admission: &mut Admission<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// Refuses a caller who may not write just this.
    fn authorize(_api: &Registry, _admission: &Admission<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// Refuses a write whose object is complete and valid, or remarks on it.
    fn validate(_api: &Registry, _admission: &mut Admission<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// Notes on an object that nobody has refused what the server alone knows of the write. Nothing validates it any more. May run twice on one object.
    fn record(_api: &Registry, _admission: &mut Admission<'_>) {}

    /// Takes what the write needs of what is bounded; a dry run only looks whether it is there. Nothing is taken where it fails.
    fn charge(
        _api: &Registry,
        _admission: &mut Admission<'_>,
        _charges: &mut Charges,
    ) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// The object is stored. Where this fails, that is undone.
    fn settle(_api: &Registry, _admission: &Admission<'_>, _charges: &Charges) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }

    /// The object is not stored.
    fn give_back(_api: &Registry, _charges: &mut Charges) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Draws the consequences of a write that stands, whatever comes of them.
    fn follow_up(_api: &Registry, _happened: &Happened<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        ready(Ok(()))
    }
}

fn refused_by<P: PlugIn>(error: ApiError) -> ApiError {
    error.refused_by(P::NAME)
}

macro_rules! chain {
    ($($file:ident::$plug_in:ident,)*) => {
        /// The names of all plug-ins, in their order.
        pub const ORDER: &[&str] = &[$(super::$file::$plug_in::NAME,)*];

        impl Registry {
            async fn mutate(&self, admission: &mut Admission<'_>) -> Result<(), ApiError> {
                $(super::$file::$plug_in::mutate(self, admission).await.map_err(refused_by::<super::$file::$plug_in>)?;)*
                Ok(())
            }

            async fn authorize_write(&self, admission: &Admission<'_>) -> Result<(), ApiError> {
                $(super::$file::$plug_in::authorize(self, admission).await.map_err(refused_by::<super::$file::$plug_in>)?;)*
                Ok(())
            }

            /// Validating admission.
            ///
            /// # Errors
            /// The first refusal.
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

            /// Draws the consequences of a write that stands. Most have none, and then it costs nothing.
            ///
            /// # Errors
            /// The store's. The write itself stands.
            pub(crate) async fn follow_up(&self, happened: &Happened<'_>) -> Result<(), ApiError> {
                $(super::$file::$plug_in::follow_up(self, happened).await?;)*
                Ok(())
            }
        }
    };
}

// Upstream's order. Who is asked outside comes last but the charges.
chain![
    namespace_lifecycle::NamespaceLifecycle,
    limit_ranger::LimitRanger,
    service_account::ServiceAccount,
    pod_security::PodSecurity,
    priority::Priority,
    default_toleration_seconds::DefaultTolerationSeconds,
    default_storage_class::DefaultStorageClass,
    storage_object_in_use_protection::StorageObjectInUseProtection,
    rollout_records::RolloutRecords,
    root_ca::RootCa,
    aggregated_roles::AggregatedRoles,
    escalation::Escalation,
    reviewers::Reviewers,
    room::StoreRoom,
    resource_quota::ResourceQuota,
    service_allocation::ServiceAllocation,
];

impl Registry {
    /// The chain up to `authorize`: the object is then what it shall be, and not yet validated.
    ///
    /// # Errors
    /// The first refusal.
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

    /// The chain from `prepare` to the store.
    ///
    /// # Errors
    /// Faults, the first refusal, another writer who was first; then nothing is charged.
    pub(crate) async fn complete(&self, admission: &mut Admission<'_>) -> Result<Current, Failure> {
        admission.since.pause(&*self.clock).await;
        admission.prepare(&self.gates);
        admission.since.pause(&*self.clock).await;
        admission.check(&self.gates)?;
        self.validate(admission).await?;
        admission.since.pause(&*self.clock).await;
        admission.record_decided_owners();
        self.record(admission);
        admission.since.pause(&*self.clock).await;
        self.carry_out(admission).await
    }

    /// The end of the chain: charge, store, settle or give back.
    ///
    /// # Errors
    /// A charge that there is no room for, another writer who was first, the store's; then nothing is charged, unless the write may have
    /// happened.
    pub(crate) async fn carry_out(&self, admission: &mut Admission<'_>) -> Result<Current, Failure> {
        let mut charges = Charges::default();
        if let Err(refused) = self.charge(admission, &mut charges).await {
            self.give_back(charges).await;
            return Err(refused.into());
        }
        let failure = match self.commit(admission).await {
            Ok(current) => match self.settle(admission, &charges).await {
                Ok(()) => return Ok(current),
                Err(lost) => self.undo(admission, &current).await.err().unwrap_or(lost).into(),
            },
            Err(failure) => failure,
        };
        if !failure.is_unknown() {
            self.give_back(charges).await;
        }
        Err(failure)
    }
}
