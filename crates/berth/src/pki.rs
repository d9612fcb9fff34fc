//! `berth pki`: credentials that several servers share.

use crate::{duration::duration, progress::Output};
use berth_apiserver::shared_pki::{self, Changes, Wanted};
use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use std::{
    error::Error,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

pub(crate) const PKI_EXAMPLES: &str = "Examples:
  berth pki init --dir ~/shop-pki --name api.example --server https://api.example:6443
  berth pki show --dir ~/shop-pki                        print when certificates expire
  berth pki renew --dir ~/shop-pki                       running servers load the new certificate";

const INIT_EXAMPLES: &str = "Example:
  berth pki init --dir ~/shop-pki
  berth apiserver --client-ca-file ~/shop-pki/ca.crt \\
    --tls-cert-file ~/shop-pki/apiserver.crt --tls-private-key-file ~/shop-pki/apiserver.key \\
    --service-account-signing-key-file ~/shop-pki/sa.key --store etcd --etcd-servers http://127.0.0.1:2379
  berth controller-manager --kubeconfig ~/shop-pki/controller-manager.kubeconfig

Keep ca.key away from servers: its owner can act as every user. berth pki renew requires it.";

const RENEW_EXAMPLES: &str = "Examples:
  berth pki renew --dir ~/shop-pki
  berth pki renew --dir ~/shop-pki --name api.example,10.0.0.7 --server https://api.example:6443";

/// `berth pki`.
#[derive(Args, Debug)]
pub(crate) struct PkiCommands {
    #[command(subcommand)]
    pub(crate) command: PkiCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PkiCommand {
    /// Creates a folder with an authority, the servers' certificate, a key for service accounts' tokens, and kubeconfigs. Overwrites
    /// nothing.
    #[command(after_help = INIT_EXAMPLES)]
    Init(Init),
    /// Renews the certificates in such a folder, except the authority's, and prints when each expires.
    #[command(after_help = RENEW_EXAMPLES)]
    Renew(Renew),
    /// Prints when each certificate in such a folder expires. Changes nothing.
    #[command(after_help = "Example:\n  berth pki show --dir ~/shop-pki")]
    Show(Show),
}

/// Options of `berth pki init`.
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// The folder to create, accessible only to its owner. It must be empty or not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// A name or address of the servers, as clients use it. localhost, 127.0.0.1 and the names inside a cluster are always included.
    /// Repeatable, or separated by commas.
    #[arg(long = "name", value_name = "NAME|IP,...", value_delimiter = ',', value_parser = name)]
    pub(crate) names: Vec<String>,

    /// The server of the kubeconfigs: one of the servers, or the load balancer in front of them.
    #[arg(long, value_name = "URL", default_value = "https://127.0.0.1:6443", value_parser = server)]
    pub(crate) server: String,

    /// How long certificates are valid. The authority's certificate is valid for ten years.
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = duration)]
    pub(crate) duration: Duration,
}

/// Options of `berth pki renew`.
#[derive(Args, Debug)]
pub(crate) struct Renew {
    /// The folder, with the authority's key.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// The names and addresses of the servers [default: unchanged].
    #[arg(long = "name", value_name = "NAME|IP,...", value_delimiter = ',', value_parser = name)]
    pub(crate) names: Vec<String>,

    /// The server of the kubeconfigs [default: unchanged].
    #[arg(long, value_name = "URL", value_parser = server)]
    pub(crate) server: Option<String>,

    /// How long certificates are valid, at most as long as the authority's.
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = duration)]
    pub(crate) duration: Duration,
}

/// Options of `berth pki show`.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// A valid name of a certificate: a DNS name, whose first label may be a star, or an address.
fn name(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        let within = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        (1..=63).contains(&label.len()) && within && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_name = || text.len() <= 253 && text.strip_prefix("*.").unwrap_or(text).split('.').all(is_label);
    if text.parse::<IpAddr>().is_ok() || is_name() {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is neither a DNS name nor an IP address"))
    }
}

fn server(text: &str) -> Result<String, &'static str> {
    let address = text.parse::<http::Uri>().ok().filter(|uri| uri.scheme_str() == Some("https") && uri.host().is_some());
    address.map(|_| text.to_owned()).ok_or("write a server as https://api.example:6443")
}

/// Runs the command, and prints the resulting files.
pub(crate) fn run(command: &PkiCommand) -> Outcome<()> {
    let folder = match command {
        PkiCommand::Init(options) => {
            let wanted = Wanted { names: &options.names, server: &options.server, holds: from_now(options.duration)? };
            shared_pki::init(&options.dir, &wanted)?;
            &options.dir
        }
        PkiCommand::Renew(options) => {
            let names = Some(&options.names[..]).filter(|names| !names.is_empty());
            let changes = Changes { names, server: options.server.as_deref() };
            shared_pki::renew(&options.dir, &changes, from_now(options.duration)?)?;
            &options.dir
        }
        PkiCommand::Show(options) => &options.dir,
    };
    print_files(folder)
}

fn from_now(duration: Duration) -> Outcome<(Timestamp, SignedDuration)> {
    let (now, holds) = (Timestamp::now(), SignedDuration::try_from(duration)?);
    now.checked_add(holds).map_err(|_| "the certificate would expire too far in the future; choose a shorter --duration")?;
    Ok((now, holds))
}

fn print_files(folder: &Path) -> Outcome<()> {
    for found in shared_pki::show(folder)? {
        let until = found.ends.map_or_else(|| "does not expire".to_owned(), |end| format!("until {}", end.strftime("%Y-%m-%d")));
        Output::Stdout.line(&format!("{:<30}  {until:<16}  {}", found.file, found.what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_certificates_can_have() {
        for good in ["api.example", "*.example", "10.0.0.7", "::1", "node-1", "a_b"] {
            assert_eq!(name(good), Ok(good.to_owned()));
        }
        for bad in ["", "a..b", "-a", "a b", "a.*", "https://a", "jörg"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn kubeconfigs_lead_to_https() {
        assert!(server("https://api.example:6443").is_ok());
        for bad in ["api.example", "http://api.example", "https://", ""] {
            assert!(server(bad).is_err(), "{bad}");
        }
    }
}
