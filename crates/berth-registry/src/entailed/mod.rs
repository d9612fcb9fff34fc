//! What writes entail: objects that the server itself writes because of them. The chain says what, and the verbs write it.

mod aggregated_roles;
mod root_ca;
mod service_account;

use crate::{
    ApiError, Registry,
    admission::{Admission, Entailed, Happened, ServiceAccount, chain::entailed_by, plug_in::PlugIn},
};

impl Registry {
    /// Takes a write through the chain up to `authorize`, and makes what must be there before it is stored.
    ///
    /// # Errors
    /// The first refusal.
    pub(crate) async fn admit(&self, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        self.chain.admit(admission).await?;
        match admission.at.namespace.filter(|_| admission.needs_account) {
            Some(namespace) => self.make_default_account(namespace).await.map_err(|error| error.refused_by(ServiceAccount::NAME)),
            None => Ok(()),
        }
    }

    /// Writes what a write entails that is stored.
    ///
    /// # Errors
    /// The store's. The write itself stays stored.
    pub(crate) async fn follow_up(&self, happened: &Happened<'_>) -> Result<(), ApiError> {
        for entailed in entailed_by(happened) {
            match entailed {
                // An account that cannot be made now is made for the first pod that needs it. A namespace that is deleted takes its account along.
                Entailed::DefaultAccount(namespace) => drop(self.make_default_account(&namespace).await),
                Entailed::RootCa(namespace) => drop(self.publish_root_ca(&namespace).await),
                Entailed::AggregatedRules => self.aggregate().await?,
            }
        }
        Ok(())
    }
}
