"""The Python client's journey against a running berth: create, watch, scale, bad update, undo, delete with each cascade.

    journey.py KUBECONFIG

Needs PyPI's `kubernetes`. Exits 0 only if every step held; prints one line a step.
"""

import sys
import time

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "python-journey"
PATIENCE_SECONDS = 60


def step(text):
    print(f"python: {text}", flush=True)


def template(image, annotations=None):
    return client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}, annotations=annotations),
        spec=client.V1PodSpec(containers=[client.V1Container(name="main", image=image)]),
    )


def deployment(replicas, image):
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1DeploymentSpec(
            replicas=replicas,
            selector=client.V1LabelSelector(match_labels={"app": "web"}),
            template=template(image),
        ),
    )


def wait_for(apps, holds, what):
    """Watches the Deployment until `holds` is true of it."""
    for event in watch.Watch().stream(
        apps.list_namespaced_deployment, NAMESPACE, field_selector="metadata.name=web", timeout_seconds=PATIENCE_SECONDS
    ):
        if event["type"] != "DELETED" and holds(event["object"]):
            return event["object"]
    raise AssertionError(f"not within {PATIENCE_SECONDS} s: {what}")


def rolled_out(replicas):
    def holds(d):
        s = d.status
        return (s.observed_generation or 0) >= d.metadata.generation and (
            s.replicas, s.updated_replicas, s.available_replicas) == (replicas, replicas, replicas)
    return holds


def wait_until_empty(list_function, what):
    end = time.monotonic() + PATIENCE_SECONDS
    while list_function().items:
        assert time.monotonic() < end, f"not within {PATIENCE_SECONDS} s: no {what} left"


def database(update_strategy):
    claim = client.V1PersistentVolumeClaim(
        metadata=client.V1ObjectMeta(name="data"),
        spec=client.V1PersistentVolumeClaimSpec(
            access_modes=["ReadWriteOnce"],
            resources=client.V1VolumeResourceRequirements(requests={"storage": "1Gi"}),
        ),
    )
    return client.V1StatefulSet(
        metadata=client.V1ObjectMeta(name="db"),
        spec=client.V1StatefulSetSpec(
            service_name="db",
            replicas=2,
            selector=client.V1LabelSelector(match_labels={"app": "web"}),
            template=template("db:1"),
            update_strategy=client.V1StatefulSetUpdateStrategy(type=update_strategy),
            volume_claim_templates=[claim],
        ),
    )


def stateful_set(core, apps):
    """Recreate of a set whose pods are stuck; the data stays."""

    def wait(holds, what):
        for event in watch.Watch().stream(
            apps.list_namespaced_stateful_set, NAMESPACE, field_selector="metadata.name=db", timeout_seconds=PATIENCE_SECONDS
        ):
            if event["type"] != "DELETED" and holds(event["object"]):
                return
        raise AssertionError(f"not within {PATIENCE_SECONDS} s: {what}")

    def ready(s):
        return (s.status.observed_generation or 0) >= s.metadata.generation and (
            s.status.replicas, s.status.updated_replicas, s.status.available_replicas) == (2, 2, 2)

    def contents():
        pods = core.list_namespaced_pod(NAMESPACE, label_selector="statefulset.kubernetes.io/pod-name").items
        return {p.metadata.name: p.metadata.annotations["berth.dev/content-ids"] for p in pods}

    def patch(image, fails):
        body = {"spec": {"template": {"metadata": {"annotations": {"sim.berth.dev/fails": fails}},
                                      "spec": {"containers": [{"name": "main", "image": image}]}}}}
        apps.patch_namespaced_stateful_set("db", NAMESPACE, body)

    apps.delete_collection_namespaced_replica_set(NAMESPACE)
    wait_until_empty(lambda: core.list_namespaced_pod(NAMESPACE), "pod")
    apps.create_namespaced_stateful_set(NAMESPACE, database("Recreate"))
    wait(ready, "2 pods available")
    before = contents()
    assert sorted(before) == ["db-0", "db-1"], before
    claims = core.list_namespaced_persistent_volume_claim(NAMESPACE).items
    assert {c.status.phase for c in claims} == {"Bound"}, claims
    patch("db:typo", "ImagePullBackOff")
    wait(lambda s: s.status.updated_replicas == 1 and not s.status.ready_replicas, "the bad revision is tried")
    patch("db:2", None)
    wait(ready, "2 pods available again")
    assert contents() == before, (before, contents())
    conditions = apps.read_namespaced_stateful_set("db", NAMESPACE).status.conditions
    assert "RecreateComplete" in {c.reason for c in conditions}, conditions
    step("a StatefulSet recreated, its data kept")


def main(kubeconfig):
    config.load_kube_config(kubeconfig)
    core, apps = client.CoreV1Api(), client.AppsV1Api()

    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    created = apps.create_namespaced_deployment(NAMESPACE, deployment(3, "web:1"))
    assert created.spec.progress_deadline_seconds == 600 and created.metadata.generation == 1
    wait_for(apps, rolled_out(3), "3 pods available")
    step("created and watched until rolled out")

    try:
        apps.create_namespaced_deployment(NAMESPACE, deployment(3, "web:1"))
        raise AssertionError("a second create must fail")
    except ApiException as error:
        assert error.status == 409, error

    apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 5}})
    assert apps.read_namespaced_deployment_scale("web", NAMESPACE).spec.replicas == 5
    wait_for(apps, rolled_out(5), "5 pods available")
    pods = core.list_namespaced_pod(NAMESPACE, label_selector="app=web")
    assert len(pods.items) == 5 and {p.status.phase for p in pods.items} == {"Running"}
    step("scaled")

    broken = {"spec": {"template": {"metadata": {"annotations": {"sim.berth.dev/fails": "ImagePullBackOff"}},
                                    "spec": {"containers": [{"name": "main", "image": "web:2"}]}}}}
    apps.patch_namespaced_deployment("web", NAMESPACE, broken)
    wait_for(apps, lambda d: (d.status.updated_replicas or 0) > 0 and d.status.unavailable_replicas, "the bad revision is tried")
    live = apps.read_namespaced_deployment("web", NAMESPACE)
    assert live.status.available_replicas >= 4, live.status
    step("a bad update stops at maxUnavailable")

    old = next(rs for rs in apps.list_namespaced_replica_set(NAMESPACE).items
               if rs.metadata.annotations["deployment.kubernetes.io/revision"] == "1")
    labels = {k: v for k, v in old.spec.template.metadata.labels.items() if k != "pod-template-hash"}
    old.spec.template.metadata.labels = labels
    undo = [{"op": "replace", "path": "/spec/template", "value": client.ApiClient().sanitize_for_serialization(old.spec.template)}]
    apps.patch_namespaced_deployment("web", NAMESPACE, undo)
    wait_for(apps, rolled_out(5), "undone")
    step("undone")

    for policy in ("Background", "Foreground"):
        apps.delete_namespaced_deployment("web", NAMESPACE, propagation_policy=policy)
        wait_until_empty(lambda: apps.list_namespaced_deployment(NAMESPACE), "deployment")
        wait_until_empty(lambda: apps.list_namespaced_replica_set(NAMESPACE), "replica set")
        wait_until_empty(lambda: core.list_namespaced_pod(NAMESPACE), "pod")
        apps.create_namespaced_deployment(NAMESPACE, deployment(2, "web:1"))
        wait_for(apps, rolled_out(2), "2 pods available")
    apps.delete_namespaced_deployment("web", NAMESPACE, propagation_policy="Orphan")
    wait_until_empty(lambda: apps.list_namespaced_deployment(NAMESPACE), "deployment")
    left = apps.list_namespaced_replica_set(NAMESPACE).items
    assert len(left) == 1 and not left[0].metadata.owner_references, left
    assert len(core.list_namespaced_pod(NAMESPACE).items) == 2
    step("deleted with each cascade")

    stateful_set(core, apps)

    core.delete_namespace(NAMESPACE)
    end = time.monotonic() + PATIENCE_SECONDS
    while any(n.metadata.name == NAMESPACE for n in core.list_namespace().items):
        assert time.monotonic() < end, "the namespace is still there"
    step("namespace emptied and gone")


if __name__ == "__main__":
    main(sys.argv[1])
