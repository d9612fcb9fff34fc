"""An operator of ships in kopf: it copies the color to the status, and prints each deletion.

    kopf run --standalone --namespace default ships.py

Needs PyPI's `kopf`, and KUBECONFIG.
"""

import kopf


@kopf.on.login()
def login(**kwargs):
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.create("fleet.example.com", "v1", "ships")
@kopf.on.update("fleet.example.com", "v1", "ships", field="spec.color")
def paint(spec, patch, **_):
    patch.status["color"] = spec["color"]


@kopf.on.delete("fleet.example.com", "v1", "ships")
def sink(name, **_):
    print(f"{name} is sunk", flush=True)
