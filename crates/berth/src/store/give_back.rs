//! `berth store give-back`.

use super::{At, Outcome, foreign, locked, options::StoreOptions, print_note, with_advice};
use crate::replacements;
use berth_etcd::OwnershipError;

pub(super) fn run(options: &StoreOptions) -> Outcome<()> {
    let At::Etcd(runtime, clients) = At::open(options)? else { return Err("only an etcd can be returned: use --store etcd".into()) };
    let data_dir = locked(options.data_dir.as_ref())?;
    if options.client_ca_file.is_none() && !data_dir.path().join("pki/ca.pem").is_file() {
        return Err(format!("{} contains no keys of a control plane (--data-dir)", data_dir.path().display()).into());
    }
    let authority = super::authority(options.client_ca_file.as_ref(), data_dir.path())?;
    runtime.block_on(async {
        let mut own = Vec::new();
        for client in clients.all() {
            match client.check_own(&authority).await {
                Ok(()) => own.push(client),
                // An interrupted run may have given back one of several etcds.
                Err(OwnershipError::NoOwner { .. }) => (),
                Err(error) => return Err(with_advice(error).into()),
            }
        }
        if own.is_empty() {
            return Err("these keys in etcd do not belong to berth: they were returned before, or have another prefix (--etcd-prefix)".into());
        }
        let mut changed = 0;
        for client in &own {
            // A berth server that starts before the end of this command reverts the changes.
            client.set_half_given_back(&authority, true).await.map_err(with_advice)?;
            changed += replacements::give(client, &foreign()).await?;
        }
        for client in own {
            client.give_back(&authority).await.map_err(with_advice)?;
        }
        print_note(&format!(
            "returned; {} fields that Kubernetes 1.36 does not know as annotations. Start the kube-apiserver. berth up --take-over is the reverse.",
            if changed == 1 { "1 object has".to_owned() } else { format!("{changed} objects have") }
        ));
        Ok(())
    })
}
