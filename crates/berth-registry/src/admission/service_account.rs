//! The service account of new pods, and the default account of each namespace.

use super::{
    Admission, Entailed, Happened, Operation, Refusal,
    plug_in::{Chain, PlugIn},
    root_ca::ROOT_CA,
};
use crate::{ApiError, resource};
use berth_api::{
    k8s_openapi::api::core::v1::{
        ConfigMapProjection, Container, DownwardAPIProjection, DownwardAPIVolumeFile, KeyToPath, LocalObjectReference, ObjectFieldSelector,
        Pod, PodSpec, ProjectedVolumeSource, ServiceAccount as WireAccount, ServiceAccountTokenProjection, Volume, VolumeMount,
        VolumeProjection,
    },
    names,
};
use berth_store::{Entry, MinRevision, env::Rng};
use serde::Deserialize;

/// The name of each namespace's default service account.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";
/// The name prefix of token volumes, and the mount path in containers.
const TOKEN_VOLUME: &str = "kube-api-access-";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// One hour, plus the seconds by which upstream distinguishes these tokens from requested ones.
const TOKEN_SECONDS: i64 = 3607;
/// 0644.
const FILE_MODE: i32 = 420;

pub(crate) struct ServiceAccount;

impl PlugIn for ServiceAccount {
    const NAME: &'static str = "ServiceAccount";

    async fn mutate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let namespace = admission.at.namespace.unwrap_or_default();
        let as_of = admission.as_of.clone();
        let Some(pod) = admission.created_mut::<Pod>() else { return Ok(()) };
        let set = set_account(chain, namespace, pod.spec.get_or_insert_default(), &as_of).await;
        admission.needs_account = set.map_err(|refusal| admission.refused(refusal))?;
        Ok(())
    }

    fn entails(happened: &Happened<'_>) -> Option<Entailed> {
        match (happened.group_and_plural(), happened.operation) {
            (("", "namespaces"), Operation::Create) => Some(Entailed::DefaultAccount(happened.name.to_owned())),
            (("", "serviceaccounts"), Operation::Delete) if happened.name == DEFAULT_ACCOUNT => {
                Some(Entailed::DefaultAccount(happened.namespace.unwrap_or_default().to_owned()))
            }
            _ => None,
        }
    }
}

/// Sets the account of a pod: the requested one, or the namespace's default. The pod inherits the account's pull secrets if it has none. It gets a
/// token if the pod or else the account requests it. Returns whether the account is missing, which only the default one can be: it refuses a pod
/// whose other account does not exist.
async fn set_account(chain: &Chain, namespace: &str, spec: &mut PodSpec, as_of: &MinRevision) -> Result<bool, Refusal> {
    let name = spec.service_account_name.take().filter(|name| !name.is_empty()).unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned());
    spec.service_account = Some(name.clone());
    let name = spec.service_account_name.insert(name);
    let found = chain.reader.get(resource::of::<WireAccount>(), Some(namespace), name, as_of).await?;
    if found.is_none() && name != DEFAULT_ACCOUNT {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        return Err(Refusal::Forbidden(why));
    }
    let account = found.as_deref().map(account_of).transpose()?.unwrap_or_default();
    if spec.image_pull_secrets.as_ref().is_none_or(Vec::is_empty) {
        spec.image_pull_secrets = account.image_pull_secrets.filter(|secrets| !secrets.is_empty());
    }
    if spec.automount_service_account_token.or(account.automount_service_account_token) == Some(true) {
        mount_token(spec, &*chain.rng);
    }
    Ok(found.is_none())
}

/// The fields of an account that its pods inherit. They are decoded for every new pod, and the rest of an account is
/// much larger.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Account {
    image_pull_secrets: Option<Vec<LocalObjectReference>>,
    automount_service_account_token: Option<bool>,
}

fn account_of(entry: &Entry) -> Result<Account, ApiError> {
    serde_json::from_slice(&entry.value).map_err(|error| ApiError::Internal { message: format!("{} cannot be read: {error}", entry.key) })
}

/// Mounts a token, the cluster's CA and the namespace in each container without a volume at that path.
fn mount_token(spec: &mut PodSpec, rng: &dyn Rng) {
    let present = spec.volumes.iter().flatten().find(|volume| volume.name.starts_with(TOKEN_VOLUME)).map(|volume| volume.name.clone());
    let name = present.clone().unwrap_or_else(|| names::generated(TOKEN_VOLUME, |bound| rng.below(bound)));
    let mut is_mounted = false;
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        is_mounted |= mount(container, &name);
    }
    if is_mounted && present.is_none() {
        spec.volumes.get_or_insert_default().push(token_volume(name));
    }
}

/// Mounts the volume. Returns whether it did.
fn mount(container: &mut Container, volume: &str) -> bool {
    let mounts = container.volume_mounts.get_or_insert_default();
    let is_free = !mounts.iter().any(|mount| mount.mount_path == TOKEN_PATH);
    if is_free {
        let (name, mount_path) = (volume.to_owned(), TOKEN_PATH.to_owned());
        mounts.push(VolumeMount { name, mount_path, read_only: Some(true), ..VolumeMount::default() });
    }
    is_free
}

fn token_volume(name: String) -> Volume {
    let token = ServiceAccountTokenProjection {
        expiration_seconds: Some(TOKEN_SECONDS),
        path: "token".to_owned(),
        ..ServiceAccountTokenProjection::default()
    };
    let item = KeyToPath { key: "ca.crt".to_owned(), path: "ca.crt".to_owned(), ..KeyToPath::default() };
    let authority = ConfigMapProjection { name: ROOT_CA.to_owned(), items: Some(vec![item]), optional: None };
    let field = ObjectFieldSelector { api_version: Some("v1".to_owned()), field_path: "metadata.namespace".to_owned() };
    let file = DownwardAPIVolumeFile { path: "namespace".to_owned(), field_ref: Some(field), ..DownwardAPIVolumeFile::default() };
    let sources = vec![
        VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() },
        VolumeProjection { config_map: Some(authority), ..VolumeProjection::default() },
        VolumeProjection { downward_api: Some(DownwardAPIProjection { items: Some(vec![file]) }), ..VolumeProjection::default() },
    ];
    let projected = ProjectedVolumeSource { default_mode: Some(FILE_MODE), sources: Some(sources) };
    Volume { name, projected: Some(projected), ..Volume::default() }
}
