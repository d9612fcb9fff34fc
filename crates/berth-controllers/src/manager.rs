//! Starts the controllers that are wanted, over shared caches.

use crate::{
    analysis::{Analyst, Providers},
    autoscaler::{AutoscalerPlanner, PodUsage},
    cache::AnyCache,
    certificates::{self, CertificateCleaner, CertificateSigner, CertificateSigningPlanner},
    cluster::Cluster,
    creations::Creations,
    cron_job::{CronJobCache, CronJobPlanner},
    daemon_set::{DaemonNodeCache, DaemonSetCache, DaemonSetCaches, DaemonSetPlanner},
    deployment::{DeploymentCache, DeploymentPlanner},
    disruption::DisruptionPlanner,
    events::Recorder,
    executor::{Executor, PlanObserver},
    garbage_collector::GarbageCollector,
    guard::{Guard, SecondWriters},
    job::{JobCache, JobPlanner},
    lazy::Lazy,
    metadata::MetaCaches,
    metrics::Metrics,
    namespace::NamespaceController,
    node_lifecycle::NodeLifecycle,
    plan_loop::{PlanLoop, Planner},
    pod_gc::PodCollector,
    replica_set::{PodCache, ReplicaSetCache, ReplicaSetPlanner, replication_controllers},
    resource_quota::{QuotaCache, QuotaPlanner},
    service_endpoints::{BalancerPlanner, EndpointsPlanner, SlicePlanner, Sources},
    stateful_set::{ClaimCache, RevisionCache, StatefulSetCache, StatefulSetCaches, StatefulSetPlanner},
    volume_binder::VolumeBinder,
    waits::Waits,
    worker::Queue,
};
use berth_api::{FeatureGates, ip::Cidr};
use berth_env::Env;
use berth_identity::{GroupResource, ObjectKey};
use berth_workloads::{
    resources::{CLAIMS, CRON_JOBS, DAEMON_SETS, JOBS, NODES, PODS, QUOTAS, REVISIONS},
    view::APPS,
};
use jiff::SignedDuration;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Names that `--controllers` knows. `node` and `scheduler` are started by others, and the API server does itself
/// what `root-ca-cert-publisher` is for; these names are only read here.
pub const CONTROLLERS: &[&str] = &[
    "cronjob",
    "csrcleaner",
    "csrsigning",
    "daemonset",
    "deployment",
    "disruption",
    "endpoint",
    "endpointslice",
    "garbagecollector",
    "horizontalpodautoscaling",
    "job",
    "namespace",
    "node",
    "nodelifecycle",
    "persistentvolume-binder",
    "podgc",
    "replicaset",
    "replicationcontroller",
    "resourcequota",
    "root-ca-cert-publisher",
    "scheduler",
    "service",
    "statefulset",
];

/// Those that belong to what berth is for, and that are wanted on a cluster with a control plane of its own: the others are there already, or simulate.
pub const WORKLOAD_CONTROLLERS: &str = "deployment,replicaset,statefulset";

/// Those of them that [`ControllerManager::start`] does not start.
const STARTED_ELSEWHERE: [&str; 3] = ["node", "root-ca-cert-publisher", "scheduler"];

/// How many objects one controller works on at once. A reconcile mostly waits until its writes are durable, and concurrent writes
/// share a commit. More workers would only make each reconcile slower.
const WORKERS: usize = 32;

/// Which controllers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enabled(BTreeSet<&'static str>);

/// A name that is no controller's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a controller; known are {}, each also with a leading \"-\", and * for all", CONTROLLERS.join(", "))]
pub struct UnknownController {
    /// As given.
    pub name: String,
}

impl Enabled {
    /// Reads a `--controllers` list: `*` all, `name` that one, `-name` not that one, `-*` none that is not named. A name
    /// takes precedence over `*`. An empty list is `*`.
    ///
    /// # Errors
    /// A name that is not in [`CONTROLLERS`].
    pub fn parse(list: &str) -> Result<Self, UnknownController> {
        let items: Vec<&str> = list.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
        let is_known = |item: &str| item == "*" || CONTROLLERS.contains(&item);
        if let Some(unknown) = items.iter().find(|item| !is_known(item.strip_prefix('-').unwrap_or(item))) {
            return Err(UnknownController { name: (*unknown).to_owned() });
        }
        let is_listed = |text: &str| items.contains(&text);
        let all = items.is_empty() || (is_listed("*") && !is_listed("-*"));
        let runs = |name: &&&'static str| is_listed(name) || (all && !is_listed(&format!("-{name}")));
        Ok(Self(CONTROLLERS.iter().filter(runs).copied().collect()))
    }

    /// Whether this controller runs.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Whether any runs that [`ControllerManager::start`] starts.
    #[must_use]
    pub fn any_managed(&self) -> bool {
        self.0.iter().any(|name| !STARTED_ELSEWHERE.contains(name))
    }
}

/// What the controllers are started with.
pub struct ControllerManager {
    /// The cluster that the controllers act on.
    pub cluster: Arc<dyn Cluster>,
    /// Time, randomness and tasks.
    pub env: Env,
    /// The controllers' gates.
    pub gates: Arc<FeatureGates>,
    /// Where they count.
    pub metrics: Arc<Metrics>,
    /// Which run.
    pub enabled: Enabled,
    /// How long it takes to make a volume for a claim.
    pub provision_latency: Duration,
    /// Where the addresses of LoadBalancers come from.
    pub load_balancer_range: Cidr,
    /// Answer the queries of analyses of progressive rollouts.
    pub providers: Arc<dyn Providers>,
    /// Signs certificates of approved requests. `None`: requests stay approved until another program signs them.
    pub signer: Option<Arc<dyn CertificateSigner>>,
    /// Receives the controllers' plans.
    pub follower: Option<Arc<dyn PlanObserver>>,
    /// The usage of pods for autoscalers. `None`: the pods are simulated, and use what their annotations set.
    pub usage: Option<Arc<dyn PodUsage>>,
    /// Whether they stop where another controller acts.
    pub second_writers: SecondWriters,
}

impl ControllerManager {
    /// Starts the controllers as tasks; they run until the process ends. To be called once: lists begin now, and a controller acts
    /// when its caches are complete.
    pub fn start(&self) {
        let pods = Lazy::new(|| Arc::new(PodCache::new(PODS)));
        let metadata = Lazy::new(|| Arc::new(MetaCaches::default()));
        let revisions = Lazy::new(|| Arc::new(RevisionCache::new(REVISIONS)));
        let jobs = Lazy::new(|| Arc::new(JobCache::new(JOBS)));
        let quotas = Arc::new(QuotaCache::new(QUOTAS));
        let events = Recorder::new(Arc::clone(&self.cluster), self.env.clone(), Arc::clone(&self.metrics), "berth");
        self.start_deployments(&pods, &quotas, &events);
        if self.enabled.contains("replicationcontroller") {
            let controllers = Arc::new(replication_controllers());
            let (events, creations) = (events.of("replication-controller"), Arc::default());
            self.start_replica_sets("replicationcontroller", &controllers, pods.get(), creations, &quotas, events);
            controllers.start(&*self.cluster, &*self.env.spawner, &self.metrics);
        }
        if self.enabled.contains("statefulset") {
            self.start_stateful_sets(pods.get(), revisions.get(), &quotas, events.of("statefulset-controller"));
        }
        if self.enabled.contains("daemonset") {
            self.start_daemon_sets(pods.get(), revisions.get(), &quotas, events.of("daemonset-controller"));
        }
        if self.enabled.contains("job") {
            self.start_jobs(jobs.get(), pods.get(), &quotas, events.of("job-controller"));
        }
        if self.enabled.contains("cronjob") {
            self.start_cron_jobs(jobs.get(), &quotas, events.of("cronjob-controller"));
        }
        if self.enabled.contains("garbagecollector") {
            self.start_garbage_collector(metadata.get(), events.of("garbage-collector-controller"));
        }
        if self.enabled.contains("namespace") {
            self.start_namespace(metadata.get());
        }
        if self.enabled.contains("podgc") {
            self.start_pod_gc(pods.get(), metadata.get(), events.of("pod-garbage-collector"));
        }
        if self.enabled.contains("disruption") {
            self.start_disruption(pods.get(), events.of("controllermanager"));
        }
        if self.enabled.contains("horizontalpodautoscaling") {
            self.start_autoscalers(events.of("horizontal-pod-autoscaler"));
        }
        self.start_certificates(&events);
        if self.enabled.contains("nodelifecycle") {
            self.start_node_lifecycle(pods.get(), events.of("node-controller"));
        }
        // There may be no quotas. If no other controller needs the metadata caches, the quota controller starts them.
        let wanted = metadata.made().cloned();
        if self.enabled.contains("resourcequota") {
            self.start_quotas(&quotas, metadata.get(), events.of("resourcequota-controller"));
        }
        if self.enabled.contains("persistentvolume-binder") {
            self.start_volume_binder(events.of("persistentvolume-controller"));
        }
        self.start_services(&events);
        // Handlers are in place: now the caches may fill.
        let (cluster, spawner, metrics) = (&*self.cluster, &*self.env.spawner, &self.metrics);
        quotas.start(cluster, spawner, metrics);
        pods.made().into_iter().for_each(|pods| pods.start(cluster, spawner, metrics));
        revisions.made().into_iter().for_each(|revisions| revisions.start(cluster, spawner, metrics));
        jobs.made().into_iter().for_each(|jobs| jobs.start(cluster, spawner, metrics));
        wanted.into_iter().for_each(|metadata| metadata.start(&self.cluster, &self.env.spawner, metrics));
    }

    fn start_deployments(&self, pods: &Lazy<Arc<PodCache>>, quotas: &QuotaCache, events: &Recorder) {
        let (deployment, replica_set) = (self.enabled.contains("deployment"), self.enabled.contains("replicaset"));
        if !deployment && !replica_set {
            return;
        }
        let resource = |plural| GroupResource::from_static(APPS, plural);
        let sets = Arc::new(ReplicaSetCache::new(resource("replicasets")));
        let (pods, creations) = (pods.get(), Arc::<Creations>::default());
        if replica_set {
            self.start_replica_sets("replicaset", &sets, pods, Arc::clone(&creations), quotas, events.of("replicaset-controller"));
        }
        if deployment {
            let deployments = Arc::new(DeploymentCache::new(resource("deployments")));
            let analyst = Analyst::new(Arc::clone(&self.providers), &self.env);
            let planner = DeploymentPlanner {
                deployments: Arc::clone(&deployments),
                sets: Arc::clone(&sets),
                pods: Arc::clone(pods),
                gates: Arc::clone(&self.gates),
                losses: Arc::default(),
                creations,
                analyst: analyst.clone(),
            };
            let (queue, guard) = (self.queue("deployment"), Guard::default());
            analyst.start(&queue);
            planner.wake(&queue);
            if self.second_writers == SecondWriters::Stop {
                guard.watch_objects(&deployments, &queue);
                guard.watch_owned("ReplicaSet", &sets, &deployments, &queue);
            }
            let caches = vec![any_cache(&deployments), any_cache(&sets), any_cache(pods)];
            self.run("deployment", planner, queue, events.of("deployment-controller"), quotas, (caches, guard));
            deployments.start(&*self.cluster, &*self.env.spawner, &self.metrics);
        }
        sets.start(&*self.cluster, &*self.env.spawner, &self.metrics);
    }

    /// The controller of ReplicaSets or of ReplicationControllers. It does not start the cache of `sets`.
    fn start_replica_sets(
        &self,
        name: &'static str,
        sets: &Arc<ReplicaSetCache>,
        pods: &Arc<PodCache>,
        creations: Arc<Creations>,
        quotas: &QuotaCache,
        events: Recorder,
    ) {
        let (gates, metrics) = (Arc::clone(&self.gates), Arc::clone(&self.metrics));
        let planner = ReplicaSetPlanner { sets: Arc::clone(sets), pods: Arc::clone(pods), gates, metrics, creations };
        let (queue, guard) = (self.queue(name), Guard::default());
        planner.wake(&queue);
        if self.second_writers == SecondWriters::Stop {
            guard.watch_objects(sets, &queue);
            guard.watch_owned("Pod", pods, sets, &queue);
        }
        let caches = vec![any_cache(sets), any_cache(pods)];
        self.run(name, planner, queue, events, quotas, (caches, guard));
    }

    fn start_stateful_sets(&self, pods: &Arc<PodCache>, revisions: &Arc<RevisionCache>, quotas: &QuotaCache, events: Recorder) {
        let sets = Arc::new(StatefulSetCache::new(GroupResource::from_static(APPS, "statefulsets")));
        let (claims, pods, revisions) = (Arc::new(ClaimCache::new(CLAIMS)), Arc::clone(pods), Arc::clone(revisions));
        let caches = vec![any_cache(&sets), any_cache(&revisions), any_cache(&pods), any_cache(&claims)];
        let watched_pods = Arc::clone(&pods);
        let own = StatefulSetCaches { sets: Arc::clone(&sets), revisions: Arc::clone(&revisions), pods, claims: Arc::clone(&claims) };
        let planner = StatefulSetPlanner::new(own, Arc::clone(&self.gates), Arc::clone(&self.metrics));
        let (queue, guard) = (self.queue("statefulset"), Guard::default());
        planner.wake(&queue);
        if self.second_writers == SecondWriters::Stop {
            guard.watch_objects(&sets, &queue);
            guard.watch_owned("Pod", &watched_pods, &sets, &queue);
            guard.watch_owned("ControllerRevision", &revisions, &sets, &queue);
        }
        self.run("statefulset", planner, queue, events, quotas, (caches, guard));
        let (cluster, spawner) = (&*self.cluster, &*self.env.spawner);
        claims.start(cluster, spawner, &self.metrics);
        sets.start(cluster, spawner, &self.metrics);
    }

    fn start_daemon_sets(&self, pods: &Arc<PodCache>, revisions: &Arc<RevisionCache>, quotas: &QuotaCache, events: Recorder) {
        let (sets, nodes) = (Arc::new(DaemonSetCache::new(DAEMON_SETS)), Arc::new(DaemonNodeCache::new(NODES)));
        let own = DaemonSetCaches {
            sets: Arc::clone(&sets),
            revisions: Arc::clone(revisions),
            pods: Arc::clone(pods),
            nodes: Arc::clone(&nodes),
        };
        let planner = DaemonSetPlanner::new(own);
        let (queue, guard) = (self.queue("daemonset"), Guard::default());
        planner.wake(&queue);
        if self.second_writers == SecondWriters::Stop {
            guard.watch_objects(&sets, &queue);
            guard.watch_owned("Pod", pods, &sets, &queue);
            guard.watch_owned("ControllerRevision", revisions, &sets, &queue);
        }
        let caches = vec![any_cache(&sets), any_cache(revisions), any_cache(pods), any_cache(&nodes)];
        self.run("daemonset", planner, queue, events, quotas, (caches, guard));
        let (cluster, spawner) = (&*self.cluster, &*self.env.spawner);
        sets.start(cluster, spawner, &self.metrics);
        nodes.start(cluster, spawner, &self.metrics);
    }

    fn start_jobs(&self, jobs: &Arc<JobCache>, pods: &Arc<PodCache>, quotas: &QuotaCache, events: Recorder) {
        let planner = JobPlanner::new(Arc::clone(jobs), Arc::clone(&self.metrics));
        let (queue, guard) = (self.queue("job"), Guard::default());
        planner.wake(&queue, pods);
        if self.second_writers == SecondWriters::Stop {
            guard.watch_objects(planner.jobs(), &queue);
            guard.watch_owned("Pod", planner.pods(), planner.jobs(), &queue);
        }
        let plan_loop = self.guarded_plan_loop("job", planner.clone(), &queue, events, planner.caches(), guard.clone());
        plan_loop.retry_when_room(quotas);
        let (cluster, env, metrics) = (Arc::clone(&self.cluster), self.env.clone(), Arc::clone(&self.metrics));
        self.begin("job", queue, plan_loop, async move {
            planner.synced(&*cluster, &*env.spawner, &metrics).await;
            guard.start();
        });
    }

    fn start_cron_jobs(&self, jobs: &Arc<JobCache>, quotas: &QuotaCache, events: Recorder) {
        let cron_jobs = Arc::new(CronJobCache::new(CRON_JOBS));
        let planner = CronJobPlanner::new(Arc::clone(&cron_jobs), Arc::clone(jobs), Arc::clone(&self.metrics));
        let (queue, guard) = (self.queue("cronjob"), Guard::default());
        planner.wake(&queue);
        if self.second_writers == SecondWriters::Stop {
            // Not its Jobs: kubectl creates some of them with the CronJob as their controller.
            guard.watch_objects(&cron_jobs, &queue);
        }
        let caches = vec![any_cache(&cron_jobs), any_cache(jobs)];
        let plan_loop = self.guarded_plan_loop("cronjob", planner.clone(), &queue, events, caches, guard.clone());
        plan_loop.retry_when_room(quotas);
        cron_jobs.start(&*self.cluster, &*self.env.spawner, &self.metrics);
        self.begin("cronjob", queue, plan_loop, async move {
            planner.synced().await;
            guard.start();
        });
    }

    fn start_garbage_collector(&self, metadata: &Arc<MetaCaches>, events: Recorder) {
        let collector = GarbageCollector::new(Arc::clone(&self.cluster), Arc::clone(metadata), events, &self.env, &self.metrics);
        let (metadata, env) = (Arc::clone(metadata), self.env.clone());
        let begin = async move {
            metadata.synced().await;
            collector.start(&env);
        };
        self.env.spawner.spawn("garbage collector", Box::pin(begin));
    }

    fn start_namespace(&self, metadata: &Arc<MetaCaches>) {
        let clock = Arc::clone(&self.env.clock);
        let controller = NamespaceController::new(Arc::clone(&self.cluster), Arc::clone(metadata), clock);
        let queue = self.queue("namespace");
        controller.wake(&queue);
        let (metadata, env) = (Arc::clone(metadata), self.env.clone());
        let begin = async move {
            metadata.synced().await;
            queue.start(&env, "namespace", WORKERS, &controller);
        };
        self.env.spawner.spawn("namespace", Box::pin(begin));
    }

    fn start_pod_gc(&self, pods: &Arc<PodCache>, metadata: &Arc<MetaCaches>, events: Recorder) {
        let collector = PodCollector {
            pods: Arc::clone(pods),
            nodes: metadata.reserve(NODES),
            executor: Executor::new(Arc::clone(&self.cluster), Arc::clone(&self.env.rng), events),
            clock: Arc::clone(&self.env.clock),
            panics: self.metrics.panics_of("podgc"),
        };
        self.env.spawner.spawn("podgc", Box::pin(collector.run()));
    }

    fn start_disruption(&self, pods: &Arc<PodCache>, events: Recorder) {
        let planner = DisruptionPlanner::new(Arc::clone(&self.cluster), Arc::clone(pods));
        let queue = self.queue("disruption");
        planner.wake(&queue);
        let plan_loop = self.plan_loop("disruption", planner.clone(), &queue, events, planner.caches());
        let (cluster, env, metrics) = (Arc::clone(&self.cluster), self.env.clone(), Arc::clone(&self.metrics));
        self.begin("disruption", queue, plan_loop, async move { planner.synced(&*cluster, &*env.spawner, &metrics).await });
    }

    fn start_autoscalers(&self, events: Recorder) {
        let planner = AutoscalerPlanner::new(Arc::clone(&self.cluster), Arc::clone(&self.gates), self.usage.clone());
        let (queue, guard) = (self.queue("horizontalpodautoscaling"), Guard::default());
        if self.second_writers == SecondWriters::Stop {
            planner.watch(&guard, &queue);
        }
        planner.wake(&queue);
        let plan_loop =
            self.guarded_plan_loop("horizontalpodautoscaling", planner.clone(), &queue, events, planner.written(), guard.clone());
        let (cluster, env, metrics) = (Arc::clone(&self.cluster), self.env.clone(), Arc::clone(&self.metrics));
        self.begin("horizontalpodautoscaling", queue, plan_loop, async move {
            planner.listed(&*cluster, &*env.spawner, &metrics).await;
            // Before the first autoscaler exists, so that any write to it counts.
            guard.start();
            planner.synced(&*cluster, &*env.spawner, &metrics).await;
        });
    }

    fn start_certificates(&self, events: &Recorder) {
        let signer = self.signer.clone().filter(|_| self.enabled.contains("csrsigning"));
        let is_cleaned = self.enabled.contains("csrcleaner");
        if signer.is_none() && !is_cleaned {
            return;
        }
        let requests = certificates::requests();
        let events = events.of("certificate-controller");
        if let Some(signer) = signer {
            let planner = CertificateSigningPlanner::new(Arc::clone(&requests), signer);
            self.start_over(&requests, "csrsigning", planner, events.clone());
        }
        if is_cleaned {
            self.start_over(&requests, "csrcleaner", CertificateCleaner::new(Arc::clone(&requests)), events);
        }
        requests.start(&*self.cluster, &*self.env.spawner, &self.metrics);
    }

    /// Starts a controller of requests for certificates.
    fn start_over<P: Planner>(&self, requests: &Arc<certificates::CertificateCache>, name: &'static str, planner: P, events: Recorder) {
        let queue = self.queue(name);
        certificates::wake(requests, &queue);
        let plan_loop = self.plan_loop(name, planner, &queue, events, vec![any_cache(requests)]);
        let requests = Arc::clone(requests);
        self.begin(name, queue, plan_loop, async move { requests.synced().await });
    }

    fn start_node_lifecycle(&self, pods: &Arc<PodCache>, events: Recorder) {
        let executor = Executor::new(Arc::clone(&self.cluster), Arc::clone(&self.env.rng), events);
        let controller = NodeLifecycle::new(Arc::clone(&self.cluster), Arc::clone(pods), executor, &self.env, &self.metrics);
        controller.start(&self.env, &self.metrics);
    }

    fn start_quotas(&self, quotas: &Arc<QuotaCache>, metadata: &Arc<MetaCaches>, events: Recorder) {
        let planner = QuotaPlanner::new(Arc::clone(quotas), Arc::clone(metadata), Arc::clone(&self.env.clock));
        let queue = self.queue("resourcequota");
        planner.wake(&queue);
        let plan_loop = self.plan_loop("resourcequota", planner.clone(), &queue, events, vec![any_cache(quotas)]);
        let (cluster, env, metrics) = (Arc::clone(&self.cluster), self.env.clone(), Arc::clone(&self.metrics));
        self.begin("resourcequota", queue, plan_loop, async move { planner.synced(&cluster, &env.spawner, &metrics).await });
    }

    fn start_volume_binder(&self, events: Recorder) {
        let binder = VolumeBinder::new(SignedDuration::try_from(self.provision_latency).unwrap_or(SignedDuration::MAX));
        let queue = self.queue("persistentvolume-binder");
        binder.wake(&queue);
        let plan_loop = self.plan_loop("persistentvolume-binder", binder.clone(), &queue, events, binder.caches());
        let (cluster, env, metrics) = (Arc::clone(&self.cluster), self.env.clone(), Arc::clone(&self.metrics));
        self.begin("persistentvolume-binder", queue, plan_loop, async move { binder.synced(&*cluster, &*env.spawner, &metrics).await });
    }

    /// The controllers that write down where Services lead; they share what they read.
    fn start_services(&self, events: &Recorder) {
        let sources = Sources::new(Arc::clone(&self.env.clock));
        let mut is_used = false;
        if self.enabled.contains("endpointslice") {
            let planner = SlicePlanner::new(sources.clone());
            let (queue, own) = (self.queue("endpointslice"), Arc::clone(&planner.slices));
            planner.wake(&queue);
            self.run_over(&sources, "endpointslice", planner, queue, events.of("endpoint-slice-controller"), any_cache(&own));
            own.start(&*self.cluster, &*self.env.spawner, &self.metrics);
            is_used = true;
        }
        if self.enabled.contains("endpoint") {
            let planner = EndpointsPlanner::new(sources.clone());
            let (queue, own) = (self.queue("endpoint"), Arc::clone(&planner.endpoints));
            planner.wake(&queue);
            self.run_over(&sources, "endpoint", planner, queue, events.of("endpoint-controller"), any_cache(&own));
            own.start(&*self.cluster, &*self.env.spawner, &self.metrics);
            is_used = true;
        }
        if self.enabled.contains("service") {
            let planner = BalancerPlanner::new(Arc::clone(sources.services()), self.load_balancer_range);
            let queue = self.queue("service");
            planner.wake(&queue);
            self.run_over(&sources, "service", planner, queue, events.of("service-controller"), any_cache(sources.services()));
            is_used = true;
        }
        if is_used {
            let following = sources.follow(Arc::clone(&self.cluster), Arc::clone(&self.env.spawner), Arc::clone(&self.metrics));
            self.env.spawner.spawn("endpoint sources", Box::pin(following));
        }
    }

    /// Starts a planner's reconciles when Services and the objects that it writes are known. Requeues all keys when pods are known.
    fn run_over(
        &self,
        sources: &Sources,
        name: &'static str,
        planner: impl Planner,
        queue: Queue<ObjectKey>,
        events: Recorder,
        own: Arc<dyn AnyCache>,
    ) {
        let plan_loop = self.plan_loop(name, planner, &queue, events, vec![Arc::clone(&own)]);
        let (sources, env) = (sources.clone(), self.env.clone());
        let begin = async move {
            sources.services().synced().await;
            own.synced().await;
            queue.start(&env, name, WORKERS, &plan_loop);
            sources.wake_when_known(&queue).await;
        };
        self.env.spawner.spawn(name, Box::pin(begin));
    }

    /// Starts a planner's reconciles when its caches are complete. Requeues the keys that a quota refused when the quota gains room.
    fn run(
        &self,
        name: &'static str,
        planner: impl Planner,
        queue: Queue<ObjectKey>,
        events: Recorder,
        quotas: &QuotaCache,
        (caches, guard): (Vec<Arc<dyn AnyCache>>, Guard),
    ) {
        let plan_loop = self.guarded_plan_loop(name, planner, &queue, events, caches.clone(), guard.clone());
        plan_loop.retry_when_room(quotas);
        self.begin(name, queue, plan_loop, async move {
            for cache in &caches {
                cache.synced().await;
            }
            guard.start();
        });
    }

    /// Returns the loop that reconciles a planner's keys.
    fn plan_loop<P: Planner>(
        &self,
        name: &'static str,
        planner: P,
        queue: &Queue<ObjectKey>,
        events: Recorder,
        caches: Vec<Arc<dyn AnyCache>>,
    ) -> Arc<PlanLoop<P>> {
        self.guarded_plan_loop(name, planner, queue, events, caches, Guard::default())
    }

    /// The same. The loop leaves out the objects for which the guard reports another controller.
    fn guarded_plan_loop<P: Planner>(
        &self,
        name: &'static str,
        planner: P,
        queue: &Queue<ObjectKey>,
        events: Recorder,
        caches: Vec<Arc<dyn AnyCache>>,
        guard: Guard,
    ) -> Arc<PlanLoop<P>> {
        let executor =
            Executor::new(Arc::clone(&self.cluster), Arc::clone(&self.env.rng), events).followed_by(self.follower.as_ref(), name);
        let waits = Waits::new(name, self.metrics.waits.clone());
        PlanLoop::new(planner, executor, Arc::clone(&self.env.clock), queue.clone(), caches, waits, guard)
    }

    /// Starts a planner's reconciles when `synced` completes.
    fn begin(
        &self,
        name: &'static str,
        queue: Queue<ObjectKey>,
        plan_loop: Arc<PlanLoop<impl Planner>>,
        synced: impl Future<Output = ()> + Send + 'static,
    ) {
        let env = self.env.clone();
        let begin = async move {
            synced.await;
            queue.start(&env, name, WORKERS, &plan_loop);
        };
        self.env.spawner.spawn(name, Box::pin(begin));
    }

    fn queue(&self, name: &str) -> Queue<ObjectKey> {
        Queue::new(name, Arc::clone(&self.env.clock), &self.metrics)
    }
}

fn any_cache<C: AnyCache + 'static>(cache: &Arc<C>) -> Arc<dyn AnyCache> {
    Arc::<C>::clone(cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_what_runs() {
        let all = CONTROLLERS.join(",");
        for (list, wanted) in [
            ("", all.as_str()),
            ("*", &all),
            ("deployment, replicaset", "deployment,replicaset"),
            ("-*,podgc", "podgc"),
            ("*,-*", ""),
            (
                "*,-node,-scheduler,-podgc,-nodelifecycle,-disruption",
                "cronjob,csrcleaner,csrsigning,daemonset,deployment,endpoint,endpointslice,garbagecollector,horizontalpodautoscaling,job,namespace,persistentvolume-binder,replicaset,replicationcontroller,resourcequota,\
                 root-ca-cert-publisher,service,statefulset",
            ),
            ("-podgc", ""),
        ] {
            let enabled = Enabled::parse(list).expect(list);
            assert_eq!(enabled.0.into_iter().collect::<Vec<_>>().join(","), wanted, "{list:?}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = Enabled::parse("*,-deployments").expect_err("no such controller");
        assert!(
            error.to_string().starts_with(
                r#""-deployments" is not a controller; known are cronjob, csrcleaner, csrsigning, daemonset, deployment, disruption"#
            ),
            "{error}"
        );
    }
}
