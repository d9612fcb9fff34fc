//! `berth up --store etcd`: its options, and the code that opens the store.

use crate::{
    duration::duration,
    foreign::{Foreign, Untouched},
    progress::chain,
    replacements,
};
use berth_apiserver::{Failure, Storage};
use berth_etcd::{Client, Fault, Options, Origin, OwnershipError, OwnershipRequest, Tls, User};
use berth_identity::GroupResource;
use berth_registry::ResourceTable;
use berth_store::{
    SplitStore, Store,
    env::Env,
    etcd::{Etcd, EtcdStore},
};
use clap::Args;
use jiff::SignedDuration;
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The etcds, and how berth connects to them.
#[derive(Args, Debug)]
pub(crate) struct Connection {
    /// The members of the etcd for --store etcd: http://127.0.0.1:2379. Repeatable, or separated by commas.
    #[arg(long, value_name = "URL,...", value_delimiter = ',', required_if_eq("store", "etcd"))]
    pub(crate) etcd_servers: Vec<String>,

    /// Other etcds for some resources: /events#http://127.0.0.1:4002;http://127.0.0.1:4003. The resource's group, which is empty for the
    /// core group, and its name are before the #. The members follow it, separated by semicolons. berth does not move objects between
    /// etcds. Repeatable, or separated by commas.
    #[arg(long, value_name = "GROUP/RESOURCE#URL;...,...", value_delimiter = ',', value_parser = servers_override)]
    pub(crate) etcd_servers_overrides: Vec<Override>,

    /// The prefix of all keys in etcd. Keys with this prefix belong to the control plane of this --data-dir.
    #[arg(long, value_name = "PREFIX", default_value = "/registry", value_parser = prefix)]
    pub(crate) etcd_prefix: String,

    /// The authorities of etcd's certificates, as PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_cafile: Option<PathBuf>,

    /// The client certificate for etcd, as PEM.
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub(crate) etcd_certfile: Option<PathBuf>,

    /// The client certificate's key, as PEM.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub(crate) etcd_keyfile: Option<PathBuf>,

    /// The user of an etcd with authentication. The user's role must allow reads and writes of keys with --etcd-prefix and of the key
    /// compact_rev_key.
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    pub(crate) etcd_user: Option<String>,

    /// A file with the user's password. berth ignores a line break at its end.
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    pub(crate) etcd_password_file: Option<PathBuf>,

    /// Allows plain http to other machines. An attacker on the network can then read and change every object, including Secrets.
    #[arg(long)]
    pub(crate) insecure_etcd: bool,
}

/// The options of `berth up` for etcd.
#[derive(Args, Debug)]
pub(crate) struct EtcdOptions {
    #[command(flatten)]
    pub(crate) connection: Connection,

    /// How long etcd may take to answer before /readyz reports a failure.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) etcd_healthcheck_timeout: Duration,

    /// The interval of etcd compaction, which API servers over one etcd run in turn. 0s disables it.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub(crate) etcd_compaction_interval: Duration,

    /// Takes over the objects that a kube-apiserver has stored in etcd. Stop the kube-apiserver first. berth then creates nothing at the
    /// start, and runs only the controllers that --controllers names. Needed once.
    #[arg(long)]
    pub(crate) take_over: bool,
}

/// The etcd of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Override {
    resource: GroupResource,
    servers: Vec<String>,
}

impl Override {
    /// The resource as text, for errors and for users.
    fn resource(&self) -> String {
        format!("{}/{}", self.resource.group, self.resource.plural)
    }
}

/// Follows upstream's grammar.
fn servers_override(text: &str) -> Result<Override, String> {
    let fault = || "write GROUP/RESOURCE#URL;..., such as /events#http://127.0.0.1:4002;http://127.0.0.1:4003".to_owned();
    let (resource, servers) = text.split_once('#').ok_or_else(fault)?;
    let (group, plural) = resource.split_once('/').ok_or_else(fault)?;
    let servers: Vec<String> = servers.split(';').map(str::to_owned).collect();
    if plural.is_empty() || plural.contains('/') || servers.iter().any(String::is_empty) {
        return Err(fault());
    }
    Ok(Override { resource: GroupResource::new(group, plural), servers })
}

/// The etcds with objects.
pub(crate) struct Places {
    /// The etcd of all other resources.
    rest: Options,
    /// The etcds of single resources, by the prefix of their keys.
    parts: Vec<(String, Options)>,
}

/// The clients of these etcds.
pub(crate) struct Clients {
    pub(crate) rest: Client,
    pub(crate) parts: Vec<(String, Client)>,
}

impl Places {
    /// # Errors
    /// One of them does not answer.
    pub(crate) async fn open(&self) -> Outcome<Clients> {
        let rest = client(&self.rest, SERVERS).await?;
        let mut parts = Vec::with_capacity(self.parts.len());
        for (prefix, options) in &self.parts {
            parts.push((prefix.clone(), client(options, OVERRIDES).await?));
        }
        Ok(Clients { rest, parts })
    }
}

impl Clients {
    /// All clients. The client for all other resources is last, because its errors concern all resources.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Client> {
        self.parts.iter().map(|(_, client)| client).chain([&self.rest])
    }

    /// The client for a key, or for the keys with a prefix.
    pub(crate) fn of(&self, text: &str) -> &Client {
        self.parts.iter().find(|(prefix, _)| text.starts_with(prefix)).map_or(&self.rest, |(_, client)| client)
    }
}

async fn client(options: &Options, servers: &str) -> Outcome<Client> {
    Ok(Client::open(options).await.map_err(|error| format!("{} ({servers})", chain(&error)))?)
}

fn prefix(text: &str) -> Result<String, String> {
    let trimmed = text.trim_end_matches('/');
    if trimmed.len() < 2 || !trimmed.starts_with('/') { Err("write a prefix as /registry".into()) } else { Ok(trimmed.into()) }
}

/// The error of etcd options with another store: a user who sets them expects the objects in etcd.
const UNUSED: &str = "etcd options require --store etcd";

impl EtcdOptions {
    /// Checks the options of a store other than etcd.
    ///
    /// # Errors
    /// A user has set an etcd option.
    pub(crate) fn check_unused(&self) -> Outcome<()> {
        if self.take_over { Err(UNUSED.into()) } else { self.connection.check_unused() }
    }

    /// The health check and the metrics of the store.
    pub(crate) fn storage(&self) -> Storage {
        Storage { name: "etcd", failure: Failure::Unready, within: self.etcd_healthcheck_timeout }
    }
}

impl Connection {
    /// Checks the options of a store other than etcd.
    ///
    /// # Errors
    /// A user has set an etcd option.
    pub(crate) fn check_unused(&self) -> Outcome<()> {
        let is_said = !self.etcd_servers.is_empty()
            || !self.etcd_servers_overrides.is_empty()
            || self.etcd_cafile.is_some()
            || self.etcd_certfile.is_some()
            || self.etcd_user.is_some()
            || self.insecure_etcd;
        if is_said { Err(UNUSED.into()) } else { Ok(()) }
    }

    /// Reads the addresses and credentials of the etcds.
    pub(crate) fn read(&self) -> Outcome<Places> {
        let read = |path: &Path| fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        let identity = match (&self.etcd_certfile, &self.etcd_keyfile) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        let tls = match &self.etcd_cafile {
            Some(path) => Some(Tls { authorities: read(path)?, identity }),
            None if identity.is_some() => {
                return Err("--etcd-certfile requires --etcd-cafile, which verifies the etcd that gets the certificate".into());
            }
            None => None,
        };
        let user = match (&self.etcd_user, &self.etcd_password_file) {
            (Some(name), Some(path)) => Some(User { name: name.clone(), password: password(&read(path)?, path)? }),
            _ => None,
        };
        let at = |endpoints: &[String]| Options {
            endpoints: endpoints.to_vec(),
            tls: tls.clone(),
            user: user.clone(),
            insecure: self.insecure_etcd,
            prefix: self.etcd_prefix.clone(),
        };
        let rest = at(&self.etcd_servers);
        rest.check().map_err(|fault| with_option(&fault, SERVERS))?;
        let mut parts: Vec<(String, Options)> = Vec::new();
        for part in &self.etcd_servers_overrides {
            let (prefix, options) = (place_of(part)?, at(&part.servers));
            options.check().map_err(|fault| with_option(&fault, OVERRIDES))?;
            if parts.iter().any(|(other, _)| *other == prefix) {
                return Err(format!("{} is named twice ({OVERRIDES})", part.resource()).into());
            }
            parts.push((prefix, options));
        }
        Ok(Places { rest, parts })
    }

    /// The location of the objects, as text.
    pub(crate) fn place(&self) -> String {
        let part = |part: &Override| format!("; {} at {}", part.resource(), part.servers.join(","));
        let parts: String = self.etcd_servers_overrides.iter().map(part).collect();
        format!("etcd at {}, below {}{parts}", self.etcd_servers.join(","), self.etcd_prefix)
    }
}

const SERVERS: &str = "--etcd-servers";
const OVERRIDES: &str = "--etcd-servers-overrides";

/// The prefix of a resource's keys. An unknown resource is an error of the user.
fn place_of(part: &Override) -> Outcome<String> {
    let resources = ResourceTable::default().resources();
    let resource = resources.by_name(&part.resource);
    resource.map(|resource| resource.prefix().to_owned()).ok_or_else(|| {
        format!("berth has no resource {:?}; write GROUP/RESOURCE, with an empty group for core resources ({OVERRIDES})", part.resource())
            .into()
    })
}

fn password(bytes: &[u8], path: &Path) -> Outcome<String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line)).to_owned())
}

/// Adds the option that corrects the fault. `servers` is the option that named the members.
fn with_option(fault: &Fault, servers: &str) -> String {
    let option = match fault {
        Fault::NoEndpoint | Fault::Endpoint(_) => servers,
        Fault::Plain(_) => "--insecure-etcd allows it",
        Fault::NoAuthority(_) => "--etcd-cafile",
        Fault::Tls(_) => "--etcd-cafile, --etcd-certfile, --etcd-keyfile",
    };
    format!("{fault} ({option})")
}

/// The inputs for opening a store.
pub(crate) struct Opening<'a> {
    /// The authorities of the owning control plane: certificates, as PEM. From now on, the first is the owner.
    pub(crate) authorities: &'a [String],
    /// Whether it takes over objects that other programs have stored.
    pub(crate) take_over: bool,
    pub(crate) table: &'a Arc<ResourceTable>,
    pub(crate) history_bytes: usize,
    pub(crate) compaction_interval: Duration,
    pub(crate) env: &'a Env,
}

/// A store in one or several etcds.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// The objects that berth took over and leaves unchanged. `None`: berth has created the contents of all etcds.
    pub(crate) untouched: Option<Arc<Untouched>>,
}

impl Opening<'_> {
    /// Opens all etcds of the store.
    pub(crate) async fn open(&self, places: &Places) -> Outcome<Opened> {
        let layout = Arc::new(Foreign(Arc::clone(self.table)));
        let clients = places.open().await?;
        let (authority, before) = self.authorities.split_first().ok_or("a control plane has an authority")?;
        let mut taken_over = Vec::new();
        // The etcd for all other resources is first, because a running kube-apiserver has its entry there.
        for client in [&clients.rest].into_iter().chain(clients.parts.iter().map(|(_, client)| client)) {
            let request = OwnershipRequest { authority, before, take_over: self.take_over };
            if client.acquire(&request).await.map_err(with_advice)? == Origin::TakenOver {
                taken_over.push(client.clone());
            }
        }
        Client::yield_to_rivals(&clients.all().cloned().collect::<Vec<_>>());
        for client in &taken_over {
            replacements::take(client, &layout).await?;
        }
        for client in clients.all() {
            if client.is_half_given_back(authority).await.map_err(with_advice)? {
                replacements::take(client, &layout).await?;
                client.set_half_given_back(authority, false).await.map_err(with_advice)?;
            }
        }
        let untouched =
            if taken_over.is_empty() { None } else { Some(Arc::new(Untouched::survey(taken_over, Arc::clone(&layout)).await?)) };
        let rest = self.store(clients.rest, &layout);
        let parts: Vec<_> = clients.parts.into_iter().map(|(prefix, client)| (prefix, self.store(client, &layout))).collect();
        let store = if parts.is_empty() { rest } else { Arc::new(SplitStore::new(rest, parts)) };
        Ok(Opened { store, untouched })
    }

    fn store(&self, client: Client, layout: &Arc<Foreign>) -> Arc<dyn Store> {
        let etcd: Arc<dyn Etcd> = Arc::new(client);
        let store = Arc::new(EtcdStore::new(etcd, Arc::clone(layout), self.history_bytes, self.env));
        match SignedDuration::try_from(self.compaction_interval) {
            Ok(every) if !every.is_zero() => store.keep_compacting(every),
            _ => (),
        }
        store
    }
}

pub(crate) fn with_advice(error: OwnershipError) -> String {
    let advice = match &error {
        OwnershipError::Etcd(_) => return error.to_string(),
        OwnershipError::Foreign { .. } => {
            "if a kube-apiserver wrote them, take them over with --take-over; otherwise choose another --etcd-prefix".to_owned()
        }
        OwnershipError::Served { .. } => "stop it first. If it was killed, its entry expires within 20 s".to_owned(),
        OwnershipError::Rival { .. } => "stop it first. If it was killed, its entry expires within 15 s".to_owned(),
        OwnershipError::Layout { .. } => "start that version, or choose another --etcd-prefix".to_owned(),
        OwnershipError::Occupied { .. } => "choose another --etcd-prefix".to_owned(),
        OwnershipError::HalfImported { .. } => "run berth store import again, which starts from scratch".to_owned(),
        OwnershipError::NoOwner { .. } => "see --etcd-prefix".to_owned(),
        OwnershipError::Others { owner, .. } => {
            format!(
                "use the --data-dir or --client-ca-file of that control plane, or choose another --etcd-prefix. If that folder is lost: etcdctl del {owner}"
            )
        }
    };
    format!("{error}: {advice}")
}
