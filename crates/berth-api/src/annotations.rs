//! The keys of annotations and labels that Kubernetes and berth define.

/// A Deployment's rollout number, on it and its ReplicaSets.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier rollout numbers of a ReplicaSet, joined by commas.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// On a ReplicaSet: `replicas` of its Deployment when it was last scaled.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// On a ReplicaSet: `replicas` + `maxSurge` of its Deployment when it was last scaled.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// On a ReplicaSet: a partial scaling is going on that began at this many replicas (KEP-5882).
pub const REPLICA_SET_REPLICAS_BEFORE_SCALE: &str = "deployment.kubernetes.io/replicaset-replicas-before-scale";

/// Label of a Deployment's ReplicaSets, their selectors and pods.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Label of a StatefulSet's pods: the name of their ControllerRevision.
pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
/// Label of a ControllerRevision: the hash in its name.
pub const CONTROLLER_REVISION_DATA_HASH: &str = "controller.kubernetes.io/hash";
/// Label of a StatefulSet's pod: its own name.
pub const STATEFUL_SET_POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// Label of a StatefulSet's pod: its ordinal.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// On a pod: controllers that scale down delete pods with lower numbers first.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// On a pod of an Indexed Job, also as a label: its completion index.
pub const JOB_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// On a pod of a Job with `backoffLimitPerIndex`: how many pods of its index failed before it.
pub const JOB_INDEX_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
/// As [`JOB_INDEX_FAILURE_COUNT`], those failures that the pod failure policy ignores.
pub const JOB_INDEX_IGNORED_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// On a Job of a CronJob: the time that it is scheduled for, in the time zone of the CronJob.
pub const CRON_JOB_SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Finalizer of a Job's pods: it keeps each pod until the Job has counted it.
pub const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// What `kubectl apply` last sent.
pub const LAST_APPLIED_CONFIGURATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// On a template: when `kubectl rollout restart` was called.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// Why a rollout was made, for `kubectl rollout history`.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// `podReplacementPolicy` of a Deployment, for clients and API servers that do not know the field.
pub const BERTH_POD_REPLACEMENT_POLICY: &str = "berth.dev/pod-replacement-policy";
/// On a Deployment or a ReplicaSet: when pods are replaced that another client deletes or evicts. It has the values of
/// the field.
pub const BERTH_DELETED_POD_REPLACEMENT_POLICY: &str = "berth.dev/deleted-pod-replacement-policy";
/// `Recreate` on a StatefulSet of type `OnDelete`, for API servers that reject the type `Recreate`.
pub const BERTH_UPDATE_STRATEGY: &str = "berth.dev/update-strategy";
/// `Revision` on a StatefulSet with rolling updates: deletes unready pods of an older revision that block the update.
pub const BERTH_REPAIR: &str = "berth.dev/repair";
/// `OnDeadline` on a Deployment or a StatefulSet: rolls back a template that was never complete and exceeds its
/// progress deadline, to the last complete one.
pub const BERTH_AUTO_ROLLBACK: &str = "berth.dev/auto-rollback";
/// On a Deployment with rolling updates: the steps in which a template that was never complete is rolled out. See
/// [`crate::apps::steps`].
pub const BERTH_STEPS: &str = "berth.dev/steps";
/// On a ReplicaSet that is rolled out in steps: `REVISION/STEP@TIME`, the current step (from 1) of the rollout with
/// this number, and its start. Only the Deployment controller writes it.
pub const BERTH_STEP: &str = "berth.dev/step";
/// On a Deployment: `REVISION/STEP/HASH`, which ends this wait of this rollout to the template with this hash.
/// `berth rollout promote` writes it.
pub const BERTH_PROMOTED: &str = "berth.dev/promoted";
/// On a Deployment whose steps have an `analysis`: the provider, by the name from the administrator's configuration.
/// See [`crate::apps::analysis`].
pub const BERTH_ANALYSIS_PROVIDER: &str = "berth.dev/analysis-provider";
/// On a Deployment whose steps have an `analysis`: the query.
pub const BERTH_ANALYSIS_QUERY: &str = "berth.dev/analysis-query";
/// On a ReplicaSet that is rolled out in steps: the result of the last analysis, as JSON: `place` (`REVISION/STEP`),
/// `question` (a hash of provider and query), `outcome` (`waits`, `passed`, `failed`, `unanswered`), and `answer` or
/// `why`. Only the Deployment controller writes it.
pub const BERTH_ANALYSIS: &str = "berth.dev/analysis";
/// On a Deployment or a StatefulSet: the last automatic rollback, as JSON: `revision` (the new one), `templateHash`,
/// `fromRevision`, `toRevision`, `reason` (a word of `cause::Kind::reason`, if a cause is known) and `message`. The
/// objects of `revision` and `fromRevision` have it too. Controllers write it.
pub const BERTH_ROLLBACK: &str = "berth.dev/rollback";
/// On a Deployment or a StatefulSet, and on the objects of its revisions: the hashes of automatically rolled back
/// templates, oldest first, joined by commas. None of them is rolled back again. Controllers write it.
pub const BERTH_ROLLED_BACK_TEMPLATES: &str = "berth.dev/rolled-back-templates";
/// On a ReplicaSet or a ControllerRevision: the number of the last complete rollout to its template, with at least one
/// pod. Only controllers write it, with [`BERTH_AUTO_ROLLBACK`] or [`BERTH_STEPS`].
pub const BERTH_COMPLETED_REVISION: &str = "berth.dev/completed-revision";
/// The time of that.
pub const BERTH_COMPLETED_AT: &str = "berth.dev/completed-at";
/// On a StatefulSet: the seconds without progress after which an update with unavailable pods has failed. For
/// [`BERTH_AUTO_ROLLBACK`].
pub const BERTH_PROGRESS_DEADLINE_SECONDS: &str = "berth.dev/progress-deadline-seconds";
/// On a ControllerRevision of a StatefulSet with [`BERTH_AUTO_ROLLBACK`]: the progress of its rollout, as JSON: `revision`, the numbers that it changes
/// (`from`, `end`), the fewest steps that were left (`left`) and since when (`at`), since when all pods are available (`availableSince`), and whether they
/// were for long enough (`succeeded`). The StatefulSet controller writes it.
pub const BERTH_PROGRESS: &str = "berth.dev/progress";
/// `Delete` on a PersistentVolumeClaim of a StatefulSet: `whenScaled` was `Delete` while the pod of the claim was
/// wanted. So a scale-down deletes the claim even if its pod does not exist. A claim that an earlier scale-down kept
/// stays. The StatefulSet controller writes it.
pub const BERTH_WHEN_SCALED: &str = "berth.dev/when-scaled";

/// On a Deployment or a StatefulSet: the author of the last change of its pod template, as JSON
/// ([`crate::apps::records::Change`]). Only the API server writes it, with the gate [`crate::Gate::RolloutRecords`].
/// Values of clients are ignored.
pub const BERTH_CHANGED_BY: &str = "berth.dev/changed-by";
/// On a Deployment or a StatefulSet: the author of the last change of its replicas ([`crate::apps::records::Scaling`]).
/// As [`BERTH_CHANGED_BY`].
pub const BERTH_SCALED_BY: &str = "berth.dev/scaled-by";
/// On a Deployment: the users who promoted its newest rollout, and the steps that they ended
/// ([`crate::apps::records::Promotions`]). As [`BERTH_CHANGED_BY`].
pub const BERTH_PROMOTED_BY: &str = "berth.dev/promoted-by";
/// On a ReplicaSet or a ControllerRevision: its last rollout, as JSON: `revision`, `began`, `formerRevision` if it was
/// rolled out before, `by` (the [`BERTH_CHANGED_BY`] of that time), and `ended` with `at` and `how`. Only controllers
/// write it, with the same gate.
pub const BERTH_ROLLOUT: &str = "berth.dev/rollout";
/// The records of changes and rollouts, which only the server or a controller writes.
pub const RECORDS: [&str; 4] = [BERTH_CHANGED_BY, BERTH_SCALED_BY, BERTH_PROMOTED_BY, BERTH_ROLLOUT];
/// On the objects of a workload's revisions: the progress of a rollout in steps, and a complete rollout, which ends all
/// steps. Only controllers write it, with any gates.
pub const PLACES: [&str; 5] = [BERTH_STEP, BERTH_ANALYSIS, BERTH_COMPLETED_REVISION, BERTH_COMPLETED_AT, BERTH_PROGRESS];

/// On an object that was exported to a kube-apiserver: the annotation that replaces a field, and that an import
/// converts back.
pub const BERTH_GIVEN_BACK: &str = "berth.dev/given-back";
/// On a node: the labels from its shape, joined by commas. A later shape without them removes them.
pub const BERTH_NODE_LABELS: &str = "berth.dev/node-labels";
/// On a persistent volume: the id of its simulated content. The first pod that mounts it writes the id.
pub const CONTENT_ID: &str = "berth.dev/content-id";
/// On a pod: the content ids in its volumes when it started, `data=<id>,logs=<id>`.
pub const CONTENT_IDS: &str = "berth.dev/content-ids";

/// On a pod: when a run of its simulated containers ends. With `.NAME`: of that container.
pub const SIM_COMPLETES_AFTER: &str = "sim.berth.dev/completes-after";
/// On a pod: the CPU that each of its simulated containers uses. With `.NAME`: that container.
pub const SIM_CPU: &str = "sim.berth.dev/cpu";
/// On a pod: the exit code of its simulated containers. With `.NAME`: of that container.
pub const SIM_EXIT_CODE: &str = "sim.berth.dev/exit-code";
/// On a pod: how many runs of its simulated containers fail before one does not. With `.NAME`: of that container.
pub const SIM_FAILS_FIRST: &str = "sim.berth.dev/fails-first";
/// On a pod: the memory that each of its simulated containers uses. With `.NAME`: that container.
pub const SIM_MEMORY: &str = "sim.berth.dev/memory";
/// On a pod: how long its simulated containers take to be ready.
pub const SIM_READY_AFTER: &str = "sim.berth.dev/ready-after";
/// On a pod: how long its simulated containers take to stop.
pub const SIM_TERMINATES_AFTER: &str = "sim.berth.dev/terminates-after";
/// On a pod: how its simulated containers fail.
pub const SIM_FAILS: &str = "sim.berth.dev/fails";
/// On a pod: what its simulated containers print.
pub const SIM_LOGS: &str = "sim.berth.dev/logs";

/// The prefix of the annotations with values of custom and external metrics: `metrics.berth.dev/NAME: "30"`.
pub const METRICS_PREFIX: &str = "metrics.berth.dev/";
