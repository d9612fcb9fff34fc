//! Two users with different roles send every verb for every resource and subresource of discovery.

use crate::common::{Client, TestServer};
use berth_api::k8s_openapi::ByteString;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

/// The rights of upstream's default roles for the kinds that berth serves, `role: verbs: group: resources`, written by
/// hand. Editors have the rights of viewers too. The only difference from upstream is that viewers can also read events
/// in their newer form, which are the same objects.
const ROLES: &str = "
view: get list watch: : configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods serviceaccounts services services/status
view: get list watch: : bindings events limitranges namespaces/status pods/log pods/status resourcequotas resourcequotas/status namespaces
view: get list watch: : replicationcontrollers replicationcontrollers/scale replicationcontrollers/status
view: get list watch: apps: daemonsets daemonsets/status
view: get list watch: batch: cronjobs cronjobs/status jobs jobs/status
view: get list watch: apps: controllerrevisions statefulsets statefulsets/status statefulsets/scale
view: get list watch: apps: deployments deployments/status deployments/scale replicasets replicasets/status replicasets/scale
view: get list watch: autoscaling: horizontalpodautoscalers horizontalpodautoscalers/status
view: get list watch: discovery.k8s.io: endpointslices
view: get list watch: networking.k8s.io: ingresses ingresses/status networkpolicies
view: get list watch: events.k8s.io: events
view: get list watch: metrics.k8s.io: pods
view: get list watch: policy: poddisruptionbudgets poddisruptionbudgets/status
view: get list watch: resource.k8s.io: resourceclaims resourceclaims/status resourceclaimtemplates
edit: get list watch: : secrets
edit: create delete deletecollection patch update: : pods serviceaccounts services persistentvolumeclaims configmaps secrets events
edit: create: : pods/eviction serviceaccounts/token
edit: create delete deletecollection patch update: apps: statefulsets statefulsets/scale deployments deployments/scale
edit: create delete deletecollection patch update: apps: replicasets replicasets/scale daemonsets
edit: create delete deletecollection patch update: : replicationcontrollers replicationcontrollers/scale
edit: create delete deletecollection patch update: batch: cronjobs jobs
edit: create delete deletecollection get list patch update watch: coordination.k8s.io: leases
edit: create delete deletecollection patch update: autoscaling: horizontalpodautoscalers
edit: create delete deletecollection patch update: networking.k8s.io: ingresses networkpolicies
edit: create delete deletecollection patch update: policy: poddisruptionbudgets
edit: create delete deletecollection patch update: resource.k8s.io: resourceclaims resourceclaimtemplates
";

/// The cluster-wide rights of every authenticated user.
const EVERY_USER: &str = "
all: create: authorization.k8s.io: selfsubjectaccessreviews selfsubjectrulesreviews
all: create: authentication.k8s.io: selfsubjectreviews
";

fn is_allowed(rules: &str, roles: &[&str], (verb, group, resource): (&str, &str, &str)) -> bool {
    rules.lines().filter(|line| !line.is_empty()).any(|line| {
        let [role, verbs, groups, resources] = line.splitn(4, ':').collect::<Vec<_>>()[..] else { panic!("a rule: {line}") };
        let has = |list: &str, word: &str| list.split_whitespace().any(|other| other == word);
        roles.contains(&role) && has(verbs, verb) && groups.trim() == group && has(resources, resource)
    })
}

/// A resource or subresource from discovery.
#[derive(Debug)]
struct Entry {
    group: String,
    /// `/api/v1`
    root: String,
    /// `deployments`, `deployments/scale`
    name: String,
    kind: String,
    api_version: String,
    is_namespaced: bool,
    verbs: Vec<String>,
}

impl Entry {
    fn subresource(&self) -> Option<&str> {
        self.name.split_once('/').map(|(_, subresource)| subresource)
    }

    /// Returns the path of the collection, and of the object `name` or its subresource.
    fn paths(&self, namespace: &str, name: &str) -> (String, String) {
        let (plural, rest) =
            self.name.split_once('/').map_or((self.name.as_str(), String::new()), |(plural, sub)| (plural, format!("/{sub}")));
        let place = if self.is_namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let collection = format!("{}{place}/{plural}", self.root);
        let object = format!("{collection}/{name}{rest}");
        (collection, object)
    }
}

async fn discovered(admin: &mut Client) -> Vec<Entry> {
    let mut roots = vec![(String::new(), "/api/v1".to_owned())];
    for group in admin.get("/apis").await.json()["groups"].as_array().expect("groups") {
        for version in group["versions"].as_array().expect("versions") {
            roots.push((text(&group["name"]), format!("/apis/{}", text(&version["groupVersion"]))));
        }
    }
    let mut entries = Vec::new();
    for (group, root) in roots {
        for entry in admin.get(&root).await.json()["resources"].as_array().expect("resources") {
            entries.push(Entry {
                group: group.clone(),
                api_version: root.trim_start_matches("/apis/").trim_start_matches("/api/").to_owned(),
                root: root.clone(),
                name: text(&entry["name"]),
                kind: text(&entry["kind"]),
                is_namespaced: entry["namespaced"] == true,
                verbs: entry["verbs"].as_array().expect("verbs").iter().map(text).collect(),
            });
        }
    }
    entries
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Returns a valid object of the kind without its metadata.
fn body(entry: &Entry, namespace: &str) -> Value {
    let pods = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let workload = || json!({"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pods}});
    let ending = || json!({"template": {"spec": {"restartPolicy": "Never", "containers": pods["spec"]["containers"]}}});
    let storage = json!({"storage": "1Gi"});
    let role = |kind: &str| json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "view"}});
    match (entry.group.as_str(), entry.kind.as_str()) {
        (_, "Pod") => json!({"spec": pods["spec"]}),
        (_, "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") => workload(),
        (_, "ReplicationController") => json!({"spec": {"template": pods}}),
        (_, "PodTemplate") => json!({"template": pods}),
        (_, "Job") => json!({"spec": ending()}),
        (_, "CronJob") => json!({"spec": {"schedule": "@daily", "jobTemplate": {"spec": ending()}}}),
        (_, "Service") => json!({"spec": {"ports": [{"port": 80}]}}),
        (_, "PersistentVolume") => {
            json!({"spec": {"capacity": storage, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}})
        }
        (_, "PersistentVolumeClaim") => json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": storage}}}),
        ("", "Event") => json!({"involvedObject": {"kind": "Pod", "name": "x", "namespace": namespace}, "reason": "R", "type": "Normal"}),
        (_, "Event") => json!({"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "a.b/c", "reportingInstance": "i",
            "action": "A", "reason": "R", "type": "Normal", "regarding": {"kind": "Pod", "name": "x", "namespace": namespace}}),
        (_, "ControllerRevision") => json!({"revision": 1, "data": {}}),
        (_, "ClusterRoleBinding" | "RoleBinding") => role("ClusterRole"),
        (_, "ClusterRole" | "Role") => json!({"rules": []}),
        (_, "StorageClass") => json!({"provisioner": "a.b/c"}),
        (_, "PriorityClass") => json!({"value": 1}),
        (_, "CSIStorageCapacity") => json!({"storageClassName": "a"}),
        (_, "VolumeAttachment") => json!({"spec": {"attacher": "a.b", "nodeName": "x", "source": {"persistentVolumeName": "x"}}}),
        (_, "VolumeAttributesClass") => json!({"driverName": "a.b", "parameters": {"a": "b"}}),
        (_, "RuntimeClass") => json!({"handler": "a"}),
        (_, "CertificateSigningRequest") => {
            let request = include_bytes!("../../../berth-api/src/certificates/request.pem").to_vec();
            json!({"spec": {"request": ByteString(request), "signerName": "example.com/x", "usages": ["any"]}})
        }
        (_, "ResourceSlice") => {
            json!({"spec": {"driver": "a.b", "pool": {"name": "p", "resourceSliceCount": 1}, "allNodes": true}})
        }
        (_, "CustomResourceDefinition") => {
            let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
            json!({"spec": {"scope": "Cluster", "names": {}, "versions": [version]}})
        }
        (_, "ValidatingAdmissionPolicy") => {
            json!({"spec": {"matchConstraints": {"resourceRules": matched()}, "validations": [{"expression": "true"}]}})
        }
        (_, "ValidatingAdmissionPolicyBinding") => json!({"spec": {"policyName": "x", "validationActions": ["Deny"]}}),
        (_, "MutatingAdmissionPolicy") => {
            let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}});
            json!({"spec": {"matchConstraints": {"resourceRules": matched()}, "mutations": [mutation], "reinvocationPolicy": "Never"}})
        }
        (_, "MutatingAdmissionPolicyBinding") => json!({"spec": {"policyName": "x"}}),
        (_, "APIService") => json!({"spec": {"version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}}),
        (_, "FlowSchema") => json!({"spec": {"priorityLevelConfiguration": {"name": "x"}}}),
        (_, "PriorityLevelConfiguration") => json!({"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}}),
        (_, "HorizontalPodAutoscaler") => {
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}}})
        }
        (_, "Ingress") => json!({"spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}}),
        (_, "IngressClass") => json!({"spec": {"controller": "a.b/c"}}),
        (_, "IPAddress") => json!({"spec": {"parentRef": {"resource": "services", "namespace": "a", "name": "x"}}}),
        (_, "ServiceCIDR") => json!({"spec": {"cidrs": ["192.0.2.0/24"]}}),
        (_, "EndpointSlice") => json!({"addressType": "IPv4", "endpoints": []}),
        (_, "SelfSubjectAccessReview") => json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}),
        (_, "SelfSubjectRulesReview") => json!({"spec": {"namespace": namespace}}),
        (_, "Binding") => json!({"target": {"kind": "Node", "name": "x"}}),
        _ => json!({}),
    }
}

/// Returns the rules of a policy.
fn matched() -> Value {
    json!([{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}])
}

/// Returns the names of an existing and of a missing object. Names of addresses must be addresses, those of API
/// services a version and a group, those of definitions a plural and a group.
fn names(entry: &Entry) -> [&'static str; 2] {
    match entry.kind.as_str() {
        "IPAddress" => ["192.0.2.1", "192.0.2.2"],
        "APIService" => ["v1.x.example.com", "v1.new.example.com"],
        "CustomResourceDefinition" => ["xs.x.example.com", "news.new.example.com"],
        _ => ["x", "new"],
    }
}

fn named(mut object: Value, name: &str) -> Value {
    object["metadata"]["name"] = name.into();
    if object.pointer("/spec/groupPriorityMinimum").is_some() {
        object["spec"]["group"] = name.trim_start_matches("v1.").into();
    }
    if object.pointer("/spec/names").is_some() {
        let (plural, group) = name.split_once('.').expect("a plural and a group");
        object["spec"]["group"] = group.into();
        object["spec"]["names"] = json!({"plural": plural, "kind": plural.to_uppercase()});
    }
    object
}

/// One request: the required verb, the method, the path, its content type, its body.
type Question = (&'static str, Method, String, &'static str, String);

/// Returns every possible request for an entry, as valid as the object `name` allows.
async fn questions(entry: &Entry, namespace: &str, name: &str, admin: &mut Client) -> Vec<Question> {
    const JSON: &str = "application/json";
    let (collection, object) = entry.paths(namespace, name);
    let new = named(body(entry, namespace), if entry.subresource().is_some() { name } else { names(entry)[1] }).to_string();
    if entry.verbs == ["create"] && entry.subresource().is_none() {
        return vec![("create", Method::POST, collection, JSON, body(entry, namespace).to_string())];
    }
    let current = admin.get(&object).await;
    let is_scale = entry.subresource() == Some("scale");
    let current = if current.code == StatusCode::OK { current.json() } else { named(json!({}), name) };
    let label = json!({"metadata": {"labels": {"l": "1"}}});
    let changed = if is_scale { json!({"spec": {"replicas": 2}}) } else { label };
    let operation = if is_scale {
        json!([{"op": "add", "path": "/spec/replicas", "value": 2}])
    } else {
        json!([{"op": "add", "path": "/metadata/labels", "value": {"l": "1"}}])
    };
    let mut put = current.clone();
    if is_scale {
        put["spec"]["replicas"] = 2.into();
    } else {
        put["metadata"]["labels"]["l"] = "1".into();
    }
    let (kind, version) = if is_scale { ("Scale", "autoscaling/v1") } else { (entry.kind.as_str(), entry.api_version.as_str()) };
    let mut applied = named(changed.clone(), name);
    applied["kind"] = kind.into();
    applied["apiVersion"] = version.into();
    let apply = format!("{object}?fieldManager=t&force=true");
    let mut questions = vec![
        ("get", Method::GET, object.clone(), JSON, String::new()),
        ("update", Method::PUT, object.clone(), JSON, put.to_string()),
        ("patch", Method::PATCH, object.clone(), "application/json-patch+json", operation.to_string()),
        ("patch", Method::PATCH, object.clone(), "application/merge-patch+json", changed.to_string()),
        ("patch", Method::PATCH, object.clone(), "application/strategic-merge-patch+json", changed.to_string()),
        ("patch", Method::PATCH, apply, "application/apply-patch+yaml", applied.to_string()),
        ("delete", Method::DELETE, object.clone(), JSON, String::new()),
    ];
    if entry.subresource().is_some() {
        questions.push(("create", Method::POST, object, JSON, new));
    } else {
        questions.push(("create", Method::POST, collection.clone(), JSON, new));
        questions.push(("list", Method::GET, collection.clone(), JSON, String::new()));
        questions.push(("watch", Method::GET, format!("{collection}?watch=true"), JSON, String::new()));
        questions.push(("deletecollection", Method::DELETE, collection, JSON, String::new()));
    }
    questions
}

/// Returns the revision of the newest write.
async fn revision(admin: &mut Client) -> String {
    text(&admin.get("/api/v1/namespaces?limit=1").await.json()["metadata"]["resourceVersion"])
}

/// Creates an object `x` of every kind, in both namespaces if it is namespaced.
async fn put_objects(admin: &mut Client, entries: &[Entry]) {
    for entry in entries
        .iter()
        .filter(|entry| ["create", "get"].iter().all(|verb| entry.verbs.iter().any(|has| has == verb)) && entry.subresource().is_none())
    {
        let namespaces: &[&str] = if entry.is_namespaced { &["a", "b"] } else { &["-"] };
        for namespace in namespaces {
            let name = names(entry)[0];
            let (collection, object) = entry.paths(namespace, name);
            if admin.get(&object).await.code == StatusCode::OK {
                continue;
            }
            let answer = admin.post(&collection, &named(body(entry, namespace), name)).await;
            assert_eq!(answer.code, 201, "{collection}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn two_users_may_do_what_upstreams_roles_allow_with_every_verb_of_every_resource() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    for namespace in ["a", "b"] {
        assert_eq!(admin.post("/api/v1/namespaces", &named(json!({}), namespace)).await.code, 201);
    }
    for role in ["view", "edit"] {
        let subject = json!({"kind": "User", "name": role});
        let binding = json!({"metadata": {"name": role}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [subject]});
        assert_eq!(admin.post("/apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings", &binding).await.code, 201);
    }
    let entries = discovered(&mut admin).await;
    put_objects(&mut admin, &entries).await;
    let mut asked = 0;
    for (user, roles) in [("view", &["view"][..]), ("edit", &["view", "edit"])] {
        let mut client = server.user(user, &[]).await;
        for entry in &entries {
            for namespace in ["a", "b"] {
                // A namespace is inside itself.
                let name = if entry.name.starts_with("namespaces") { namespace } else { names(entry)[0] };
                for question in questions(entry, namespace, name, &mut admin).await {
                    let rule = (question.0, entry.group.as_str(), entry.name.as_str());
                    let is_inside = entry.is_namespaced || (entry.name.starts_with("namespaces") && !question.2.ends_with("/namespaces"));
                    let is_inside = is_inside && namespace == "a" && !question.2.contains("/namespaces?");
                    let may = (is_inside && is_allowed(ROLES, roles, rule)) || is_allowed(EVERY_USER, &["all"], rule);
                    let is_served = entry.verbs.iter().any(|served| served == question.0);
                    if may && question.0 == "watch" && is_served {
                        // The watch would not end, so it has a connection of its own, which ends with it.
                        let watch = server.user(user, &[]).await.open(Method::GET, &question.2, &[], "").await;
                        assert_eq!(watch.status(), 200, "{entry:?}");
                    } else {
                        check(&mut client, &mut admin, entry, &question, may).await;
                    }
                    asked += 1;
                }
            }
        }
    }
    assert!(1000 < asked, "{asked}");
}

/// Checks that an authorized user is served with a dry run, and that another user is rejected and nothing is written.
async fn check(client: &mut Client, admin: &mut Client, entry: &Entry, question: &Question, may: bool) {
    let (verb, method, path, content_type, body) = question;
    let separator = if path.contains('?') { '&' } else { '?' };
    // A request that must be rejected is no dry run. An allowed one must leave the objects unchanged for the next
    // request.
    let path = if may && *method != Method::GET { format!("{path}{separator}dryRun=All") } else { path.clone() };
    let headers = [("content-type", *content_type)];
    let before = if may { String::new() } else { revision(admin).await };
    let answer = client.send(method.clone(), &path, &headers, body.clone()).await;
    let what = format!("{entry:?} {method} {path} {content_type}: {}", answer.text());
    if !may {
        assert_eq!(answer.code, 403, "{what}");
        assert_eq!(revision(admin).await, before, "{what}");
    } else if entry.verbs.iter().any(|served| served == verb) {
        // The pods here do not run, so they have no usage.
        let is_missing = entry.group == "metrics.k8s.io" && *verb == "get" && answer.code == 404;
        assert!(answer.code.is_success() || is_missing, "{what}");
    } else {
        assert_eq!(answer.code, 405, "{what}");
    }
}
