//! The workloads of a command: `deployment/web`, `deploy web shop`, `deploy -l tier=front`.

use super::{
    cluster::{Connection, Item},
    error::Error,
    options::Target,
};
use crate::{
    cluster_options::ClusterOptions,
    manifests::{self, Depth, Document},
};
use berth_identity::Revision;
use berth_workloads::{view::View, workload::WorkloadKind};
use jiff::Timestamp;
use serde_json::Value;

/// Parses a type as kubectl does: singular, plural or short, with or without version and group.
///
/// # Errors
/// berth does not roll out this type.
pub(super) fn parse_kind(text: &str) -> Result<WorkloadKind, Error> {
    let unknown = || Error::Usage(format!("berth does not roll out the type {text}; write deployment, statefulset or daemonset"));
    let (kind, group) = text.split_once('.').unwrap_or((text, ""));
    if !["", "apps", "v1.apps"].contains(&group) {
        return Err(unknown());
    }
    match kind.to_ascii_lowercase().as_str() {
        "deployment" | "deployments" | "deploy" => Ok(WorkloadKind::Deployment),
        "statefulset" | "statefulsets" | "sts" => Ok(WorkloadKind::StatefulSet),
        "daemonset" | "daemonsets" | "ds" => Ok(WorkloadKind::DaemonSet),
        _ => Err(unknown()),
    }
}

/// A workload of a command, as the server returned it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) kind: WorkloadKind,
    pub(super) name: String,
    /// The whole object.
    pub(super) json: String,
}

impl Found {
    /// `deployment.apps/web`.
    pub(super) fn title(&self) -> String {
        format!("{}.{}/{}", self.kind.singular(), self.kind.resource().group, self.name)
    }

    /// `deployment.apps/web --namespace shop`: the workload as command-line arguments.
    pub(super) fn arguments(&self) -> String {
        let object: Value = serde_json::from_str(&self.json).unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str().map(|namespace| format!(" --namespace {namespace}"));
        format!("{}{}", self.title(), namespace.unwrap_or_default())
    }

    /// An error about this workload.
    pub(super) fn fault(&self, message: impl ToString) -> Error {
        Error::Workload { resource: self.kind.resource(), name: self.name.clone(), message: message.to_string() }
    }

    /// When the spec was last changed, according to the managed fields. Otherwise when the object was created.
    pub(super) fn changed(&self) -> Option<Timestamp> {
        changed(&self.json)
    }

    /// Decodes a view of the object.
    ///
    /// # Errors
    /// The object has another kind.
    pub(super) fn view<V: View>(&self) -> Result<V, Error> {
        self.decode(|json| V::decode(json, Revision::default()))
    }

    /// Decodes the object.
    ///
    /// # Errors
    /// The object has another kind.
    pub(super) fn decode<V>(&self, decode: impl Fn(&[u8]) -> serde_json::Result<V>) -> Result<V, Error> {
        decode(self.json.as_bytes()).map_err(|source| Error::Decode { what: self.title(), source })
    }
}

/// When an object's spec was last changed, according to the managed fields. Otherwise when the object was created.
pub(super) fn changed(json: &str) -> Option<Timestamp> {
    let object: Value = serde_json::from_str(json).ok()?;
    let time = |text: &Value| text.as_str()?.parse::<Timestamp>().ok();
    let entries = object["metadata"]["managedFields"].as_array();
    let written = entries.into_iter().flatten().filter(|entry| entry["subresource"].as_str().unwrap_or_default().is_empty());
    written.filter_map(|entry| time(&entry["time"])).max().or_else(|| time(&object["metadata"]["creationTimestamp"]))
}

/// The selected workloads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// These.
    Named(Vec<(WorkloadKind, String)>),
    /// All workloads of a type, or those with the labels.
    All(WorkloadKind, Option<String>),
    /// The workloads of manifests, each with its namespace if the manifest contains one.
    Manifests(Vec<(WorkloadKind, Option<String>, String)>),
}

impl Selection {
    /// Reads the command line and the manifests on it.
    ///
    /// # Errors
    /// A manifest cannot be read, or contains no workload. Also the errors of [`Self::parse`].
    pub(super) async fn read(target: &Target, cluster: &ClusterOptions) -> Result<Self, Error> {
        let selection = match target.filename.is_empty() {
            true => Self::parse(target)?,
            false => Self::of_manifests(&manifests::read(&target.filename, Depth::of(target.recursive)).await?, cluster)?,
        };
        match selection {
            Self::Named(_) if cluster.all_namespaces => {
                Err(Error::Usage("a resource cannot be retrieved by name across all namespaces".to_owned()))
            }
            selection => Ok(selection),
        }
    }

    fn of_manifests(documents: &[Document], cluster: &ClusterOptions) -> Result<Self, Error> {
        let mut found = Vec::new();
        for Document { place, object } in documents {
            let Some(kind) = WorkloadKind::of_manifest(text_of(&object["apiVersion"]), text_of(&object["kind"])) else { continue };
            let text = |key: &str| object["metadata"][key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            let Some(name) = text("name") else { continue };
            if let (Some(own), Some(asked)) = (text("namespace"), &cluster.namespace)
                && own != *asked
            {
                return Err(Error::Usage(format!(
                    "{place}: the namespace from the provided object \"{own}\" does not match the namespace \"{asked}\". \
                     You must pass '--namespace={own}' to perform this operation."
                )));
            }
            found.push((kind, text("namespace"), name));
        }
        match found.is_empty() {
            true => Err(Error::Usage("the manifests contain no Deployment, StatefulSet or DaemonSet".to_owned())),
            false => Ok(Self::Manifests(found)),
        }
    }

    /// All workloads of the namespace, or of all namespaces.
    ///
    /// # Errors
    /// There are none.
    pub(super) async fn everything(connection: &Connection, cluster: &ClusterOptions) -> Result<Vec<(Connection, Found)>, Error> {
        let mut found = Vec::new();
        let mut fault = None;
        for kind in WorkloadKind::ALL {
            match Self::All(kind, None).find(connection, cluster).await {
                Ok(of_kind) => found.extend(of_kind),
                Err(Error::Usage(why)) => fault = Some(Error::Usage(why)),
                Err(error) => return Err(error),
            }
        }
        match fault.filter(|_| found.is_empty()) {
            Some(fault) => Err(fault),
            None => Ok(found),
        }
    }

    /// Parses the command line.
    ///
    /// # Errors
    /// Names and labels together, both forms of names together, a type that is not rolled out.
    pub(super) fn parse(target: &Target) -> Result<Self, Error> {
        let selection = if target.resources.iter().any(|text| text.contains('/')) {
            Self::Named(target.resources.iter().map(|text| type_and_name(text)).collect::<Result<_, _>>()?)
        } else {
            let (kind, names) = target.resources.split_first().ok_or_else(|| Error::Usage("write TYPE/NAME".to_owned()))?;
            let kind = match (parse_kind(kind), names) {
                (Err(why), []) => {
                    return Err(Error::Usage(format!("write TYPE/NAME: deployment/{kind} ({why})")));
                }
                (parsed, _) => parsed?,
            };
            match names {
                [] => Self::All(kind, target.selector.clone()),
                names => Self::Named(names.iter().map(|name| (kind, name.clone())).collect()),
            }
        };
        match selection {
            Self::Named(_) if target.selector.is_some() => {
                Err(Error::Usage("use either names, or labels with a TYPE (deployment -l tier=front), not both".to_owned()))
            }
            selection => Ok(selection),
        }
    }

    /// Reads the workloads, and returns each with its namespace.
    ///
    /// # Errors
    /// A named workload does not exist, or no workload has the labels.
    pub(super) async fn find(&self, connection: &Connection, cluster: &ClusterOptions) -> Result<Vec<(Connection, Found)>, Error> {
        let mut found = Vec::new();
        match self {
            Self::Named(names) => {
                for (kind, name) in names {
                    found.push((connection.clone(), read(connection, *kind, name).await?));
                }
            }
            Self::Manifests(names) => {
                for (kind, namespace, name) in names {
                    let there = namespace.as_ref().map_or_else(|| connection.clone(), |namespace| connection.in_namespace(namespace));
                    let workload = read(&there, *kind, name).await?;
                    found.push((there, workload));
                }
            }
            Self::All(kind, selector) => {
                let (resource, selector) = (kind.gvr(), selector.as_deref());
                let (items, place) = match cluster.all_namespaces {
                    true => (connection.list_everywhere(&resource, selector).await?, "any namespace".to_owned()),
                    false => {
                        let place = format!("namespace {} (--namespace)", connection.namespace());
                        (connection.list(&resource, selector).await?, place)
                    }
                };
                if items.is_empty() {
                    return Err(Error::Usage(format!("no {} found in {place}", kind.resource().plural)));
                }
                let each = |item: Item| (connection.in_namespace(&item.namespace), Found { kind: *kind, name: item.name, json: item.json });
                found.extend(items.into_iter().map(each));
            }
        }
        Ok(found)
    }
}

async fn read(connection: &Connection, kind: WorkloadKind, name: &str) -> Result<Found, Error> {
    let json = connection.named(&kind.gvr(), name).await?;
    Ok(Found { kind, name: name.to_owned(), json })
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn type_and_name(text: &str) -> Result<(WorkloadKind, String), Error> {
    match text.split_once('/') {
        Some((kind, name)) if !name.is_empty() && !name.contains('/') => Ok((parse_kind(kind)?, name.to_owned())),
        _ => Err(Error::Usage(format!("{text:?} is not TYPE/NAME like the others; write, for example, deployment/web"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(arguments: &str, selector: Option<&str>) -> Result<Selection, String> {
        let resources = arguments.split(' ').map(str::to_owned).collect();
        Selection::parse(&Target { resources, selector: selector.map(str::to_owned), ..Target::default() })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn workloads_are_named_in_every_way_of_kubectl() {
        let one = |kind, name: &str| Ok(Selection::Named(vec![(kind, name.to_owned())]));
        for text in ["deployment/web", "deploy/web", "deployments.apps/web", "deployment.v1.apps/web", "deploy web", "Deployment web"] {
            assert_eq!(parse(text, None), one(WorkloadKind::Deployment, "web"), "{text}");
        }
        assert_eq!(parse("sts db", None), one(WorkloadKind::StatefulSet, "db"));
        for text in ["daemonset/agent", "ds agent", "daemonsets.apps/agent", "daemonset.v1.apps/agent"] {
            assert_eq!(parse(text, None), one(WorkloadKind::DaemonSet, "agent"), "{text}");
        }
        let both = vec![(WorkloadKind::Deployment, "a".to_owned()), (WorkloadKind::StatefulSet, "b".to_owned())];
        assert_eq!(parse("deploy/a sts/b", None), Ok(Selection::Named(both)));
        assert_eq!(parse("deploy", Some("a=b")), Ok(Selection::All(WorkloadKind::Deployment, Some("a=b".to_owned()))));
    }

    #[test]
    fn manifests_name_workloads_among_other_kinds() {
        let document = |kind: &str, api_version: &str, namespace: Option<&str>| Document {
            place: "m.yaml".to_owned(),
            object: json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web", "namespace": namespace}}),
        };
        let documents = [
            document("Service", "v1", None),
            document("Deployment", "apps/v1", Some("shop")),
            document("StatefulSet", "apps/v1", None),
            document("DaemonSet", "apps/v1", None),
        ];
        let anywhere = ClusterOptions::default();
        let expected = vec![
            (WorkloadKind::Deployment, Some("shop".to_owned()), "web".to_owned()),
            (WorkloadKind::StatefulSet, None, "web".to_owned()),
            (WorkloadKind::DaemonSet, None, "web".to_owned()),
        ];
        let found = Selection::of_manifests(&documents, &anywhere).map_err(|error| error.to_string());
        assert_eq!(found, Ok(Selection::Manifests(expected)));
        let elsewhere = ClusterOptions { namespace: Some("bank".to_owned()), ..ClusterOptions::default() };
        let error = Selection::of_manifests(&documents, &elsewhere).expect_err("another namespace").to_string();
        assert!(error.contains("\"shop\" does not match the namespace \"bank\""), "{error}");
        let error = Selection::of_manifests(&documents[..1], &anywhere).expect_err("nothing to roll out").to_string();
        assert_eq!(error, "the manifests contain no Deployment, StatefulSet or DaemonSet");
    }

    #[test]
    fn a_change_of_what_is_wanted_is_no_write_of_a_status() {
        let at = |second: u8| format!("2026-01-01T00:00:{second:02}Z");
        let entry = |second, subresource: &str| json!({"manager": "m", "time": at(second), "subresource": subresource});
        let of = |entries: Value| {
            changed(&json!({"metadata": {"creationTimestamp": at(1), "managedFields": entries}}).to_string()).map(|at| at.to_string())
        };
        assert_eq!(of(json!([entry(5, ""), entry(3, ""), entry(9, "status")])), Some(at(5)));
        assert_eq!(of(json!([entry(9, "status")])), Some(at(1)));
        assert_eq!(changed("{}"), None);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let check = |text: &str, selector, says: &str| {
            let error = parse(text, selector).expect_err(text);
            assert!(error.contains(says), "{error}");
        };
        check("web", None, "write TYPE/NAME: deployment/web (berth does not roll out the type web");
        check("pod/web", None, "berth does not roll out the type pod; write deployment, statefulset or daemonset");
        check("deployments.extensions/web", None, "does not roll out the type");
        check("deployment/", None, "is not TYPE/NAME");
        check("deployment/web shop", None, "is not TYPE/NAME");
        check("deployment/web", Some("a=b"), "not both");
    }
}
