//! The address of etcd, and the credentials.

use crate::wire::HERE;
use http::Uri;
use std::net::IpAddr;

/// The address of etcd, and the credentials. The caller that makes these options reads the files.
#[derive(Clone)]
pub struct Options {
    /// The addresses of its members: `https://10.0.0.1:2379`.
    pub endpoints: Vec<String>,
    /// For `https`.
    pub tls: Option<Tls>,
    /// For an etcd with users.
    pub user: Option<User>,
    /// Whether to permit `http` to other machines. An attacker on the network can then read and change everything that
    /// is stored, including Secrets.
    pub insecure: bool,
    /// The beginning of the keys in etcd, without a `/` at its end. It replaces the store's `/registry`.
    pub prefix: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { endpoints: Vec::new(), tls: None, user: None, insecure: false, prefix: HERE.into() }
    }
}

/// The TLS settings of both sides.
#[derive(Clone, Default)]
pub struct Tls {
    /// The CA certificates for members, as PEM.
    pub authorities: Vec<u8>,
    /// The client certificate and its key, both as PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// A user of etcd.
#[derive(Clone)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
}

/// Why [`Options`] are invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is no endpoint.
    #[error("there is no etcd endpoint")]
    NoEndpoint,
    /// An endpoint is not an address.
    #[error("{0:?} is not an etcd address, such as https://10.0.0.1:2379")]
    Endpoint(String),
    /// An endpoint is plain `http` and not on this machine.
    #[error("{0:?} is plain http to another machine: an attacker on the network could read and change every object, including Secrets")]
    Plain(String),
    /// An endpoint is `https` and there is no CA.
    #[error("{0:?} is https, but there is no authority to verify its certificate")]
    NoAuthority(String),
    /// Certificates or keys are invalid.
    #[error("the certificates for etcd cannot be used: {0}")]
    Tls(String),
}

impl Options {
    /// Checks the options without a connection.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn check(&self) -> Result<(), Fault> {
        self.checked().map(drop)
    }

    /// Returns the endpoints, each with whether it is `https`.
    pub(crate) fn checked(&self) -> Result<Vec<(Uri, bool)>, Fault> {
        if self.endpoints.is_empty() {
            return Err(Fault::NoEndpoint);
        }
        self.endpoints.iter().map(|endpoint| self.check_endpoint(endpoint)).collect()
    }

    fn check_endpoint(&self, endpoint: &str) -> Result<(Uri, bool), Fault> {
        let no_address = || Fault::Endpoint(endpoint.into());
        let uri: Uri = endpoint.trim_end_matches('/').parse().map_err(|_| no_address())?;
        let host = uri.host().filter(|_| uri.path() == "/" && uri.query().is_none()).ok_or_else(no_address)?;
        match uri.scheme_str() {
            Some("https") if self.tls.is_none() => Err(Fault::NoAuthority(endpoint.into())),
            Some("https") => Ok((uri, true)),
            Some("http") if !self.insecure && !is_loopback(host) => Err(Fault::Plain(endpoint.into())),
            Some("http") => Ok((uri, false)),
            _ => Err(no_address()),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_leaves_the_machine_only_where_allowed() {
        let check = |endpoint: &str, insecure| {
            let options = Options { endpoints: vec![endpoint.into()], insecure, ..Options::default() };
            options
                .checked()
                .map(|found| found[0].0.to_string())
                .map_err(|fault| fault.to_string().split(": ").next().unwrap_or_default().to_owned())
        };
        let local = ["http://127.0.0.1:2379", "http://localhost:2379/", "http://[::1]:2379", "http://127.9.9.9:1"];
        assert!(local.iter().all(|endpoint| check(endpoint, false).is_ok()), "{:?}", local.map(|endpoint| check(endpoint, false)));
        for far in ["http://10.0.0.1:2379", "http://etcd:2379", "http://localhost.example:2379", "http://127.0.0.1.example:1"] {
            assert_eq!(check(far, false), Err(format!("{far:?} is plain http to another machine")));
            assert!(check(far, true).is_ok());
        }
        for wrong in ["10.0.0.1:2379", "unix:///run/etcd.sock", "https://", "http://127.0.0.1:2379/v3", "ftp://127.0.0.1:2379", ""] {
            assert_eq!(check(wrong, true), Err(format!("{wrong:?} is not an etcd address, such as https://10.0.0.1:2379")));
        }
        assert!(check("https://10.0.0.1:2379", true).is_err_and(|error| error.contains("no authority")));
        assert_eq!(Options::default().checked(), Err(Fault::NoEndpoint));
    }
}
