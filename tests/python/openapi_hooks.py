"""How schemathesis asks a running berth what its OpenAPI documents promise: loaded by SCHEMATHESIS_HOOKS (crates/berth/tests/it/openapi.rs)."""

import schemathesis

# Names and a namespace that come up again and again, so that requests meet what others made. Others would find nothing but 404.
NAMESPACE = "default"
NAMES = ["a", "b"]

# Types so deep that their values take minutes to make, with the members that are left. Their rules are fuzzed by fuzz/fuzz_targets/validation.rs,
# from the same schemas, thousands of times a second.
NARROWED = {
    "io.k8s.api.core.v1.PodSpec": {"containers", "nodeName", "restartPolicy", "terminationGracePeriodSeconds"},
    "io.k8s.api.core.v1.Container": {"args", "image", "name", "ports"},
    "io.k8s.api.core.v1.PersistentVolumeSpec": {"accessModes", "capacity", "claimRef", "hostPath", "persistentVolumeReclaimPolicy"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"annotations", "finalizers", "generateName", "labels", "name", "namespace", "uid"},
    "io.k8s.api.core.v1.NodeStatus": {"conditions", "phase"},
    "io.k8s.api.core.v1.PodStatus": {"conditions", "phase", "podIPs"},
}


@schemathesis.hook
def before_load_schema(context, schema):
    for name, members in NARROWED.items():
        narrowed = schema["components"]["schemas"].get(name)
        if narrowed is not None:
            narrowed["properties"] = {key: of for key, of in narrowed["properties"].items() if key in members}


@schemathesis.hook
def before_call(context, case, kwargs):
    # The answer to a watch is a stream, which the documents, as upstream's, describe as a list. It ends only when it is told to.
    if case.query:
        case.query.pop("watch", None)
    path = case.path_parameters or {}
    if "namespace" in path:
        path["namespace"] = NAMESPACE
    if "name" in path:
        path["name"] = NAMES[len(str(path["name"])) % len(NAMES)]
    if isinstance(case.body, dict) and isinstance(case.body.get("metadata"), dict) and isinstance(case.body["metadata"].get("name"), str):
        case.body["metadata"]["name"] = path.get("name", NAMES[len(case.body["metadata"]["name"]) % len(NAMES)])
        case.body["metadata"].pop("namespace", None)
