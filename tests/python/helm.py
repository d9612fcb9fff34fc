"""Helm 4's journey with our chart against a running berth: server-side apply, and waiting by kstatus.

    helm.py KUBECONFIG CHART

Needs PyPI's `helm-python-sdk`, which is Helm's own Go code as a library, and `kubernetes`. Exits 0 only if every step held; prints
one line a step.
"""

import sys

import helm_python as helm
from kubernetes import client, config

NAMESPACE = "helm-journey"
PATIENCE_SECONDS = 60
# The field manager that Helm takes is its program's name, as far as the first dot.
WAIT = {"wait": "watcher", "timeout": PATIENCE_SECONDS}


def step(text):
    print(f"helm {helm.helm_sdk_version()}: {text}", flush=True)


class Shop:
    """A release of the chart, and what is on the server of it."""

    def __init__(self, kubeconfig, chart):
        config.load_kube_config(kubeconfig)
        self.apps, self.core = client.AppsV1Api(), client.CoreV1Api()
        self.helm = helm.Config(kubeconfig_path=kubeconfig, namespace=NAMESPACE)
        self.chart = chart

    def upgrade(self, values, **options):
        return self.helm.upgrade(self.chart, "shop", values, **{**WAIT, **options})

    def refused(self, values, **options):
        try:
            self.upgrade(values, **options)
        except helm.HelmReleaseError as error:
            return str(error.detail)
        raise AssertionError(f"should have been refused: {values}")

    def web(self):
        return self.apps.read_namespaced_deployment("shop-web", NAMESPACE)

    def image(self):
        return self.web().spec.template.spec.containers[0].image

    def rolled_out(self, replicas):
        status = self.web().status
        return [status.replicas, status.updated_replicas, status.available_replicas] == [replicas] * 3

    def statuses(self):
        return [revision["status"] for revision in self.helm.history("shop")]


def install(shop):
    assert not helm.lint(shop.chart)["errors"]
    made = shop.helm.install(shop.chart, "shop", create_namespace=True, **WAIT)
    assert (made["revision"], made["status"]) == (1, "deployed"), made
    assert shop.rolled_out(3), shop.web().status
    database = shop.apps.read_namespaced_stateful_set("shop-database", NAMESPACE).status
    assert database.available_replicas == 2, database
    owners = [(entry.operation, entry.subresource) for entry in shop.web().metadata.managed_fields]
    assert owners == [("Apply", None), ("Update", "status")], owners
    step("installed, waited for")


def upgrade_and_roll_back(shop):
    shop.upgrade({"web": {"image": "web:2"}, "database": {"image": "db:2", "updateStrategy": "Recreate"}})
    assert shop.image() == "web:2" and shop.rolled_out(3), shop.web().status
    pods = shop.core.list_namespaced_pod(NAMESPACE, label_selector="app.kubernetes.io/component=database").items
    assert {pod.spec.containers[0].image for pod in pods} == {"db:2"}
    shop.helm.rollback("shop", version=1, **WAIT)
    assert shop.image() == "registry.example/shop/web:1.0" and shop.rolled_out(3), shop.web().status
    assert shop.statuses() == ["superseded", "superseded", "deployed"], shop.statuses()
    step("upgraded and rolled back")


def fail(shop):
    broken = {"web": {"image": "web:3", "progressDeadlineSeconds": 2, "podAnnotations": {"sim.berth.dev/fails": "ImagePullBackOff"}}}
    told = shop.refused(broken, rollback_on_failure=True)
    assert "rolled back due to rollback-on-failure" in told and "Progress deadline exceeded" in told, told
    assert shop.image() == "registry.example/shop/web:1.0" and shop.rolled_out(3), shop.web().status
    assert shop.statuses()[-2:] == ["failed", "deployed"], shop.statuses()
    step("a failed upgrade rolled back")


def conflict(shop):
    shop.apps.patch_namespaced_deployment_scale("shop-web", NAMESPACE, {"spec": {"replicas": 4}}, field_manager="autoscaler")
    told = shop.refused({})
    assert 'Apply failed with 1 conflict: conflict with "autoscaler" with subresource "scale" using apps/v1: .spec.replicas' in told, told
    assert shop.web().spec.replicas == 4
    shop.upgrade({"web": {"replicas": 4}})
    assert shop.rolled_out(4)
    step("a conflict told")


def uninstall(shop):
    tried = shop.upgrade({"web": {"image": "web:5"}}, dry_run="server", wait=None)
    assert "web:5" in tried["manifest"] and shop.image() != "web:5"
    assert [release["name"] for release in shop.helm.list(all_namespaces=True)] == ["shop"]
    shop.helm.uninstall("shop", **WAIT)
    assert not shop.apps.list_namespaced_deployment(NAMESPACE).items
    assert not shop.core.list_namespaced_secret(NAMESPACE).items
    step("uninstalled")


if __name__ == "__main__":
    shop = Shop(sys.argv[1], sys.argv[2])
    for part in (install, upgrade_and_roll_back, fail, conflict, uninstall):
        part(shop)
