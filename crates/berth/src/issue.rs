//! `berth kubeconfig`: a certificate for another user.

use crate::{
    cli::IssueKubeconfig,
    data_dir::{DataDir, StoreKind},
};
use berth_apiserver::{Kubeconfig, pki};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::{
    error::Error,
    fs,
    io::{IsTerminal, Write},
    path::Path,
};

/// Creates the certificate and writes the kubeconfig.
pub(crate) fn run(options: &IssueKubeconfig) -> Result<(), Box<dyn Error>> {
    let to_file = options.output.as_deref().filter(|path| *path != Path::new("-"));
    if options.output.is_none() && std::io::stdout().is_terminal() {
        return Err(
            "a kubeconfig contains a private key, which the terminal would show: write it to a file (--output FILE), or add --output -"
                .into(),
        );
    }
    let data_dir = DataDir::open(options.data_dir.clone(), StoreKind::Embedded)?;
    let server = match &options.server {
        Some(server) => server.clone(),
        None => server_of(&data_dir.path().join("kubeconfig"))?,
    };
    let lifetime = SignedDuration::try_from(options.duration)?;
    let issued = pki::issue(&data_dir.path().join("pki"), &options.user, &options.groups, (Timestamp::now(), lifetime))?;
    let kubeconfig = Kubeconfig {
        name: "berth",
        server: &server,
        ca_certificate: &issued.ca_certificate,
        client_certificate: &issued.client.certificate,
        client_key: &issued.client.key,
    };
    match to_file {
        Some(path) => kubeconfig.write(path).map_err(|error| format!("cannot write the kubeconfig {}: {error}", path.display()))?,
        None => std::io::stdout().write_all(kubeconfig.render().as_bytes())?,
    }
    Ok(())
}

/// The server's address in the administrator's kubeconfig.
fn server_of(kubeconfig: &Path) -> Result<String, Box<dyn Error>> {
    let unknown = |why: &str| format!("{why} {}; add the server's address with --server", kubeconfig.display());
    let text = fs::read_to_string(kubeconfig).map_err(|error| unknown(&format!("{error}:")))?;
    let config: Value = serde_saphyr::from_str(&text).map_err(|_| unknown("there is no kubeconfig in"))?;
    let server = config["clusters"][0]["cluster"]["server"].as_str();
    Ok(server.ok_or_else(|| unknown("there is no server in"))?.to_owned())
}
