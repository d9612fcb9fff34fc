//! The config map in every namespace with the server's CA certificate.

use super::{Entailed, Happened, Operation, plug_in::PlugIn};

/// The name of the config map.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";

pub(super) struct RootCa;

impl PlugIn for RootCa {
    const NAME: &'static str = "RootCa";

    fn entails(happened: &Happened<'_>) -> Option<Entailed> {
        match (happened.group_and_plural(), happened.operation) {
            (("", "namespaces"), Operation::Create) => Some(Entailed::RootCa(happened.name.to_owned())),
            (("", "configmaps"), Operation::Update | Operation::Delete) if happened.name == ROOT_CA => {
                Some(Entailed::RootCa(happened.namespace.unwrap_or_default().to_owned()))
            }
            _ => None,
        }
    }
}
