//! Serves an empty API from memory without controllers, for the recorded cases in `testdata/wire`, and for
//! measurements.
//!
//!     cargo run --example serve -- 127.0.0.1:6443 /tmp/serve
//!
//! writes `kubeconfig` into the folder and serves until interrupted.

#[path = "../tests/it/common/mod.rs"]
mod common;

use berth_apiserver::{Kubeconfig, Server};
use std::path::PathBuf;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let bind = arguments.next().unwrap_or_else(|| "127.0.0.1:6443".to_owned()).parse()?;
    let folder: PathBuf = arguments.next().unwrap_or_else(|| "/tmp/serve".to_owned()).into();
    let config = common::config(&folder.join("pki"), bind).await;
    let (pki, readiness) = (common::pki(&folder.join("pki"), bind), config.readiness.clone());
    let server = Server::bind(config).await?;
    let kubeconfig = Kubeconfig {
        name: "serve",
        server: &format!("https://{}", server.local_addr()),
        ca_certificate: &pki.ca_certificate,
        client_certificate: &pki.admin.certificate,
        client_key: &pki.admin.key,
    };
    kubeconfig.write(&folder.join("kubeconfig"))?;
    readiness.set_ready();
    server
        .serve(async {
            // Without a signal handler, only a kill ends the process.
            let _ = tokio::signal::ctrl_c().await;
        })
        .await;
    Ok(())
}
