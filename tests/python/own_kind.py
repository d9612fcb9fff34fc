"""The Python client with a kind of its own: define, create, apply, watch, status, scale, delete.

    own_kind.py KUBECONFIG

Needs PyPI's `kubernetes`. Exits 0 only if every step held; prints one line a step.
"""

import json
import pathlib
import sys
import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import DynamicApiError

PATIENCE_SECONDS = 60
KIND = dict(group="fleet.example.com", version="v1", namespace="default", plural="ships")
DEFINITION = json.loads((pathlib.Path(__file__).parent.parent / "own-kind.json").read_text())


def step(text):
    print(f"python: {text}", flush=True)


def refused(code, function, *args, **kwargs):
    """Returns the body of the error that the call must end with."""
    try:
        function(*args, **kwargs)
    except (ApiException, DynamicApiError) as error:
        assert error.status == code, error
        return error.body
    raise AssertionError(f"should have been refused with {code}")


def wait_for(list_function, name, holds, **selection):
    for event in watch.Watch().stream(
        list_function, field_selector=f"metadata.name={name}", timeout_seconds=PATIENCE_SECONDS, **selection
    ):
        found = event["raw_object"]
        if holds(event["type"], found):
            return found
    raise AssertionError(f"not within {PATIENCE_SECONDS} s: {name}")


def established(kind, found):
    conditions = found.get("status", {}).get("conditions") or []
    return kind != "DELETED" and any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def ship(name, color, crew=None):
    spec = {"color": color} if crew is None else {"color": color, "crew": crew}
    return {"apiVersion": "fleet.example.com/v1", "kind": "Ship", "metadata": {"name": name}, "spec": spec}


def main(kubeconfig):
    config.load_kube_config(kubeconfig)
    definitions, objects = client.ApiextensionsV1Api(), client.CustomObjectsApi()
    name = DEFINITION["metadata"]["name"]
    definitions.create_custom_resource_definition(DEFINITION)
    wait_for(definitions.list_custom_resource_definition, name, established)
    step("defined")

    made = objects.create_namespaced_custom_object(body=ship("a", "red"), **KIND)
    assert made["spec"] == {"color": "red", "crew": 1} and made["metadata"]["generation"] == 1, made
    message = refused(422, objects.create_namespaced_custom_object, body=ship("b", "red", 10), **KIND)
    assert "a red ship has a crew of at most 9" in message, message
    message = refused(422, objects.create_namespaced_custom_object, body=ship("b", "green"), **KIND)
    assert "Unsupported value" in message, message
    step("created, and validated")

    objects.patch_namespaced_custom_object(name="a", body={"spec": {"color": "blue"}}, **KIND)
    status = objects.patch_namespaced_custom_object_status(name="a", body={"status": {"crew": 1, "color": "blue"}}, **KIND)
    assert status["status"]["color"] == "blue" and status["metadata"]["generation"] == 2, status
    objects.patch_namespaced_custom_object_scale(name="a", body={"spec": {"replicas": 12}}, **KIND)
    scale = objects.get_namespaced_custom_object_scale(name="a", **KIND)
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (12, 1), scale
    wait_for(objects.list_namespaced_custom_object, "a", lambda _, found: found["spec"]["crew"] == 12, **KIND)
    step("patched, scaled and watched")

    ships = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="fleet.example.com/v1", kind="Ship")
    applied = ships.server_side_apply(body=ship("c", "red"), namespace="default", field_manager="python")
    assert applied.spec.crew == 1, applied
    refused(409, ships.server_side_apply, body=ship("c", "blue"), namespace="default", field_manager="other")
    assert {item.metadata.name for item in ships.get(namespace="default").items} == {"a", "c"}
    step("applied by the dynamic client")

    objects.delete_namespaced_custom_object(name="a", **KIND)
    refused(404, objects.get_namespaced_custom_object, name="a", **KIND)
    definitions.delete_custom_resource_definition(name)
    end = time.monotonic() + PATIENCE_SECONDS
    while any(d.metadata.name == name for d in definitions.list_custom_resource_definition().items):
        assert time.monotonic() < end, "the definition is still there"
    refused(404, objects.list_namespaced_custom_object, **KIND)
    step("deleted with its definition")


if __name__ == "__main__":
    main(sys.argv[1])
