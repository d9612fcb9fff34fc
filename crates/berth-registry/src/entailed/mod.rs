//! The follow-up writes of the server. The chain determines them, and the verbs execute them.

mod aggregated_roles;
mod root_ca;
mod service_account;

use crate::{
    ApiError, Registry,
    admission::{Admission, Entailed, Happened, ServiceAccount, chain::entailed_by, plug_in::PlugIn},
};

impl Registry {
    /// Runs the chain up to `authorize`, and creates what must exist before the object is stored.
    ///
    /// # Errors
    /// The first rejection.
    pub(crate) async fn admit(&self, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        self.chain.admit(admission).await?;
        match admission.at.namespace.filter(|_| admission.needs_account) {
            Some(namespace) => self.make_default_account(namespace).await.map_err(|error| error.refused_by(ServiceAccount::NAME)),
            None => Ok(()),
        }
    }

    /// Executes the follow-up writes of a stored write.
    ///
    /// # Errors
    /// Errors of the store. The write itself persists.
    pub(crate) async fn follow_up(&self, happened: &Happened<'_>) -> Result<(), ApiError> {
        for entailed in entailed_by(happened) {
            match entailed {
                // An account that cannot be created now is created for the first pod that needs it. A deleted namespace
                // takes its account along.
                Entailed::DefaultAccount(namespace) => drop(self.make_default_account(&namespace).await),
                Entailed::RootCa(namespace) => drop(self.publish_root_ca(&namespace).await),
                Entailed::AggregatedRules => self.aggregate().await?,
            }
        }
        Ok(())
    }
}
