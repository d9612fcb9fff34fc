//! Where a server lives, dies and starts again: a process on a real folder, or one inside this process on a disk that loses power.

mod in_process;
mod process;

pub(crate) use in_process::InProcess;
pub(crate) use process::{Process, Refusal};

use crate::{access, client::Endpoint};
use berth_apiserver::pki;
use jiff::{SignedDuration, Timestamp};
use std::path::Path;

/// Who writes and watches beside the administrator; each has a share of its own.
const USERS: [&str; 3] = ["ann", "bob", "cid"];
/// The group that they are in.
pub(crate) const GROUP: &str = "writers";

/// Either.
pub(crate) enum TestServer {
    Process(Process),
    InProcess(InProcess),
}

impl TestServer {
    /// Starts a server; gives how it is reached, by the administrator and by users.
    ///
    /// # Errors
    /// It refuses.
    pub(crate) async fn start(&mut self) -> Result<Vec<Endpoint>, Refusal> {
        match self {
            Self::Process(process) => process.start(),
            Self::InProcess(server) => server.start().await,
        }
    }

    /// # Panics
    /// It is none.
    pub(crate) fn process(&mut self) -> &mut Process {
        let Self::Process(process) = self else { panic!("this is done to a process") };
        process
    }

    /// # Panics
    /// It is a process.
    pub(crate) fn in_process(&mut self) -> &mut InProcess {
        let Self::InProcess(server) = self else { panic!("this cannot be done to a process") };
        server
    }

    /// What `kill -9` does: everything that was written stays, whatever was synced.
    pub(crate) fn kill(&mut self) {
        match self {
            Self::Process(process) => process.kill(),
            Self::InProcess(server) => server.kill(),
        }
    }
}

/// Certificates of the users, signed by the authority in this folder.
pub(crate) struct Users(Vec<pki::Issued>);

impl Users {
    fn issue(folder: &Path) -> Result<Self, pki::PkiError> {
        let validity = (Timestamp::now(), SignedDuration::from_hours(30 * 24));
        USERS.iter().map(|user| pki::issue(folder, user, &[GROUP.to_owned()], validity)).collect::<Result<_, _>>().map(Self)
    }

    /// How they reach a server.
    fn endpoints(&self, address: &str) -> impl Iterator<Item = Endpoint> {
        self.0.iter().map(|issued| endpoint(address, &issued.ca_certificate, &issued.client))
    }
}

fn endpoint(address: &str, authority: &str, client: &pki::Pair) -> Endpoint {
    let [authority, certificate, key] = [authority, &client.certificate, &client.key].map(str::as_bytes);
    access::with_certificate(address.to_owned(), authority, certificate, key).expect("the server made them")
}
