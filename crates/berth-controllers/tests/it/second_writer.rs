//! Another controller manager writes the same objects, under another name in `managedFields`.

use super::{Cluster, DEPLOYMENTS, DeleteParams, LocalCluster, Metrics, Running, SETS, SecondWriters, deployment, lock};
use berth_api::{Object, Subresource};
use berth_controllers::{Change, ClusterError, RawObject, ServedKind};
use berth_identity::{GroupResource, ObjectKey, Revision, Uid};
use berth_local::cluster_error;
use berth_registry::{Actor, Body, Collection, Registry, WriteOptions};
use berth_workloads::resources::{AUTOSCALERS, EVENTS, PODS};
use futures::{FutureExt, future::BoxFuture, stream::BoxStream};
use serde_json::{Value, json};
use std::sync::Arc;

const WORKLOADS: &str = "deployment,replicaset,statefulset";
const BERTH: &str = "berth-controller-manager";
const UPSTREAM: &str = "kube-controller-manager";

/// The registry as remote clients use it: field managers are recorded from the start.
struct FromOutside {
    local: LocalCluster,
    registry: Registry,
    manager: &'static str,
}

impl Cluster for FromOutside {
    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        self.local.kinds()
    }

    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change> {
        self.local.watch(resource)
    }

    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        self.local.get(resource, key)
    }

    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        self.local.newest(resource)
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        async move {
            let name = object.resource();
            let resource = self.registry.resources().by_name(&name).cloned().expect("served");
            let at = Collection { resource, namespace: object.meta().namespace.clone() };
            let key = ObjectKey { namespace: at.namespace.clone().into(), name: object.meta().name.clone().into() };
            let options = WriteOptions { field_manager: self.manager.to_owned(), ..WriteOptions::default() };
            self.registry.create(&Actor::System, &at, Body::Json(object.encode()), &options).await.map_err(cluster_error)?;
            self.local.get(name, &key).await?.ok_or_else(|| ClusterError::NotFound("it is gone again".to_owned()))
        }
        .boxed()
    }

    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        self.local.patch(resource, key, subresource, patch)
    }

    fn update(&self, object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        self.local.update(object, subresource)
    }

    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>> {
        self.local.bind(pod, uid, node)
    }

    fn delete(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        self.local.delete(resource, key, params)
    }
}

impl Running {
    fn acting_outside(&self, manager: &'static str) -> Arc<dyn Cluster> {
        let local = self.cluster.as_ref().clone().named(manager);
        Arc::new(FromOutside { local, registry: self.registry.clone(), manager })
    }

    /// Starts berth's controllers with another API server's setting.
    fn run_berth(&self) -> Arc<Metrics> {
        self.run_controllers_as(self.acting_outside(BERTH), WORKLOADS, Arc::default(), SecondWriters::Stop);
        lock(&self.metrics).last().cloned().expect("they have some")
    }

    fn create_outside(&self, object: &Value) {
        self.create(Some("default"), object);
        self.settle();
    }

    /// Texts of the events about second writers.
    fn reports(&self) -> Vec<String> {
        let reports = self.list(EVENTS).into_iter().filter(|event| event["reason"] == "SecondWriter");
        let text = |event: Value| format!("{} {} {}", event["type"], event["involvedObject"]["kind"], event["message"]).replace('"', "");
        reports.map(text).collect()
    }

    fn pods_of(&self, name: &str) -> usize {
        self.list(PODS).iter().filter(|pod| pod["metadata"]["labels"]["app"] == name).count()
    }
}

fn stopped(metrics: &Metrics) -> [i64; 2] {
    ["deployment", "replicaset"].map(|controller| metrics.waits.with_label_values(&[controller, "second_writer"]).get())
}

#[test]
fn berth_stops_on_the_objects_on_which_another_acts_and_reports_each_once() {
    let running = Running::start("-*");
    let berth = running.run_berth();
    running.create_outside(&deployment("own", 2));
    assert_eq!((running.pods_of("own"), stopped(&berth)), (2, [0, 0]), "alone");

    running.run_controllers_as(running.acting_outside(UPSTREAM), WORKLOADS, Arc::default(), SecondWriters::Ignore);
    assert_eq!(stopped(&berth), [0, 0], "nothing at rest is written");
    running.create_outside(&deployment("both", 10));
    assert!(0 < stopped(&berth).iter().sum::<i64>(), "both have acted");
    let reports = running.reports();
    let starts = "another controller acts on this object too (kube-controller-manager writes ";
    assert!(reports.iter().all(|report| report.starts_with("Warning ") && report.contains(starts)), "{reports:?}");

    // From here on, only the other controller writes the object, which converges. berth continues with its own objects.
    running.patch(DEPLOYMENTS, "both", json!({"spec": {"replicas": 4}}));
    running.settle();
    assert_eq!((running.pods_of("both"), running.pods_of("own")), (4, 2));
}

#[test]
fn objects_that_another_wrote_before_the_start_are_taken_over() {
    let running = Running::start("-*");
    let process = running.run_controllers_in_a_process(running.acting_outside(UPSTREAM), WORKLOADS);
    running.create_outside(&deployment("web", 3));
    assert_eq!((running.count(SETS), running.count(PODS)), (1, 3));
    process.kill();
    let berth = running.run_berth();
    running.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 5}}));
    running.settle();
    assert_eq!((running.count(PODS), stopped(&berth), running.reports().len()), (5, [0, 0], 0));
}

#[test]
fn an_autoscaler_whose_status_another_writes_scales_nothing_more() {
    let running = Running::start("-*");
    running.run_controllers_as(running.acting_outside(BERTH), "horizontalpodautoscaling", Arc::default(), SecondWriters::Stop);
    let berth = lock(&running.metrics).last().cloned().expect("they have some");
    running.create_outside(&deployment("web", 5));
    running.create_outside(&json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }));
    let state = || {
        let stopped = berth.waits.with_label_values(&["horizontalpodautoscaling", "second_writer"]).get();
        (running.list(DEPLOYMENTS)[0]["spec"]["replicas"].as_i64(), stopped)
    };
    assert_eq!(state(), (Some(3), 0), "alone");

    let (other, key) = (running.acting_outside(UPSTREAM), ObjectKey::new("default", "web"));
    let status = json!({"status": {"desiredReplicas": 9}});
    running.test_env.block_on(async move { other.patch(AUTOSCALERS, &key, Some(Subresource::Status), status).await }).expect("a status");
    running.settle();
    running.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 7}}));
    running.settle();
    assert_eq!(state(), (Some(7), 1));
    let text = "another controller acts on this object too (kube-controller-manager writes the status)";
    assert!(running.reports().iter().any(|report| report.starts_with("Warning HorizontalPodAutoscaler ") && report.contains(text)));
}
