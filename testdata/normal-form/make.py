#!/usr/bin/env python3
"""Writes crates/berth-api/src/normal/table.rs: which empty fields upstream's encoder leaves out, and which it always writes.

  make.py --api DIR --apimachinery DIR --k8s-openapi DIR > crates/berth-api/src/normal/table.rs

DIR are the sources of k8s.io/api and k8s.io/apimachinery at the tag kubernetes-1.36.2, and of the crate k8s-openapi. Only JSON tags
and the kinds of types are read. Run it by hand when one of them has a new version. Standard library only.

For each field of each type that a served kind reaches:
  drop   `omitempty`, not a pointer: an empty value is left out
  fill   a struct, string or number by value that is always written, where k8s-openapi has an option
  visit  what it holds has such fields
Everything else stays as it is. `omitempty` on a plain field of k8s-openapi cannot be expressed in its types: see README.md.
"""
import argparse, glob, os, re

META = "apimachinery/pkg/apis/meta/v1"
ROOTS = {
    "api::apps::v1": "ControllerRevision DeploymentCondition ReplicaSetCondition StatefulSetCondition StatefulSetOrdinals"
    " StatefulSetPersistentVolumeClaimRetentionPolicy",
    "api::authentication::v1": "SelfSubjectReview TokenReview",
    "api::authorization::v1": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    "api::autoscaling::v2": "HorizontalPodAutoscaler",
    "api::coordination::v1": "Lease",
    "api::core::v1": "ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplateSpec"
    " ResourceQuota Secret Service ServiceAccount",
    "api::discovery::v1": "EndpointSlice",
    "api::events::v1": "Event",
    "api::networking::v1": "IPAddress ServiceCIDR",
    "api::policy::v1": "PodDisruptionBudget",
    "api::rbac::v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "api::scheduling::v1": "PriorityClass",
    "api::storage::v1": "StorageClass",
}
# Written by hand: `managedFields: []` has a meaning of its own.
BY_HAND = {"apimachinery::pkg::apis::meta::v1::ObjectMeta", "apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry"}
# Upstream's defaults tell an empty list from none, and its validation refuses the empty one.
KEPT = {("api::autoscaling::v2::HPAScalingRules", "policies")}
OPAQUE = {"Time", "MicroTime", "Quantity", "IntOrString", "RawExtension", "FieldsV1", "Duration"}
PACKAGES = {"metav1": META, "v1": "core/v1", "corev1": "core/v1", "apiv1": "core/v1"}
WIDTH = 140


class Go:
    def __init__(self, api, apimachinery):
        self.folders, self.packages = (api, apimachinery), {}

    def package(self, path):
        if path not in self.packages:
            api, apimachinery = self.folders
            folder = f"{apimachinery}/{path[len('apimachinery/'):]}" if path.startswith("apimachinery/") else f"{api}/{path}"
            self.packages[path] = self.read(folder)
        return self.packages[path]

    def read(self, folder):
        structs, aliases = {}, {}
        for name in sorted(glob.glob(folder + "/types*.go")):
            text = re.sub(r"/\*.*?\*/", "", re.sub(r"//.*", "", open(name).read()), flags=re.S)
            for found in re.finditer(r"^type (\w+) struct \{(.*?)^\}", text, re.M | re.S):
                structs[found[1]] = [field for line in found[2].splitlines() for field in self.field(line.strip())]
            for block in re.findall(r"^type \((.*?)^\)", text, re.M | re.S) + [text]:
                aliases.update(re.findall(r"^\s*(?:type )?(\w+) ([\w\[\]*.]+)$", block, re.M))
        return structs, aliases

    def field(self, line):
        found = re.match(r"(?:\w+\s+)?(\S+)\s+`([^`]*)`$", line)
        tag = found and re.search(r'json:"([^"]*)"', found[2])
        if tag:
            name, *options = tag[1].split(",")
            yield name, found[1], options

    def resolve(self, package, name):
        if "." not in name:
            return package, name
        qualifier, name = name.split(".")
        return PACKAGES.get(qualifier, qualifier), name

    def fields(self, package, name):
        """By JSON name: (package, type, options); embedded structs are flattened."""
        fields = {}
        for json, type_, options in self.package(package)[0][name]:
            if json or "inline" not in options:
                fields[json] = (package, type_, options)
                continue
            inner = self.resolve(package, type_.lstrip("*"))
            if inner[1] != "TypeMeta":
                fields.update(self.fields(*inner))
        return fields

    def shape(self, package, name):
        if name.startswith("*"):
            return "pointer"
        if name.startswith("[]"):
            return "bytes" if name == "[]byte" else "list"
        if name.startswith("map["):
            return "map"
        package, name = self.resolve(package, name)
        if name in OPAQUE:
            return "opaque"
        if name in ("string", "UID"):
            return "text"
        if name == "bool" or re.fullmatch(r"u?int\d*|float\d+", name):
            return "number"
        structs, aliases = self.package(package)
        return "struct" if name in structs else self.shape(package, aliases[name])


def rust_types(folder):
    """By path: [(field, JSON name, type)]."""
    types = {}
    source = folder + "/src/v1_36"
    for name in glob.glob(source + "/**/*.rs", recursive=True):
        text = open(name).read()
        found = re.search(r"^pub struct (\w+) \{(.*?)^\}", text, re.M | re.S)
        if not found:
            continue
        module = os.path.relpath(os.path.dirname(name), source).replace("/", "::")
        keys = {field: json for json, field in re.findall(r'"([^"]+)" => Field::Key_(\w+),', text)}
        fields = re.findall(r"^    pub ((?:r#)?\w+): (.*),$", found[2], re.M)
        types[f"{module}::{found[1]}"] = [(f, keys.get(f.removeprefix("r#")) or keys.get(f.rstrip("_")), t) for f, t in fields]
    return types


def action(shape, options, is_option):
    if shape in ("pointer", "opaque") or not is_option:
        return None
    if shape == "struct":
        return None if "omitzero" in options else "fill"
    if "omitempty" in options:
        return "drop"
    return "fill" if shape in ("text", "number") else None


def table_of(go, rust):
    todo, table = [f"{module}::{name}" for module, names in ROOTS.items() for name in names.split()], {}
    while todo:
        path = todo.pop()
        if path in table or path not in rust or path in BY_HAND:
            continue
        module, name = path.rsplit("::", 1)
        package = META if module.endswith("meta::v1") else module[len("api::") :].replace("::", "/")
        fields, table[path] = go.fields(package, name), []
        for field, json, type_ in rust[path]:
            inner = [t for t in re.findall(r"crate::([\w:]+)", type_) if t in rust]
            todo.extend(inner)
            where, go_type, options = fields[json]
            done = None if (path, field) in KEPT else action(go.shape(where, go_type), options, type_.startswith("Option<"))
            table[path].append((field, done, inner))
    return table


def has_work(table):
    work = set(BY_HAND) - {"apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry"}
    while True:
        more = {p for p, fields in table.items() if p not in work and any(a or work & set(inner) for _, a, inner in fields)}
        if not more:
            return work
        work |= more


def lines(label, fields):
    line = f"        {label}:"
    for field in fields:
        if len(line) + len(field) + 2 > WIDTH:
            yield line
            line = "           "
        line += " " + field
    yield line + ";"


def main():
    parser = argparse.ArgumentParser()
    for option in ("--api", "--apimachinery", "--k8s-openapi"):
        parser.add_argument(option, required=True)
    options = parser.parse_args()
    table = table_of(Go(options.api, options.apimachinery), rust_types(options.k8s_openapi))
    work = has_work(table)
    roots = {f"{module}::{name}" for module, names in ROOTS.items() for name in names.split()}
    print("//! Made by `testdata/normal-form/make.py` from the JSON tags of k8s.io/api v1.36.2. Do not edit.\n")
    print("use super::normal;\nuse k8s_openapi::{\n    api::{")
    modules = sorted({p.rsplit("::", 1)[0] for p in table if p in work | roots})
    for module in modules:
        if module.startswith("api::"):
            group, version = module.split("::")[1:]
            print(f"        {group}::{version} as {group},")
    print("    },\n    apimachinery::pkg::apis::meta::v1 as meta,\n};\n\nnormal! {")
    for path in sorted(table, key=lambda p: (p.split("::")[1], p)):
        if path not in work | roots:
            continue
        module, name = path.rsplit("::", 1)
        group = "meta" if module.endswith("meta::v1") else module.split("::")[1]
        fields = table[path]
        lists = {
            "drop": [f for f, a, _ in fields if a == "drop"],
            "fill": [f for f, a, _ in fields if a == "fill"],
            "visit": [f for f, a, inner in fields if work & set(inner)],
        }
        parts = {label: names for label, names in lists.items() if names}
        short = f"    {group}::{name} {{ " + " ".join(f"{label}: {' '.join(names)};" for label, names in parts.items()) + " }"
        if len(short) <= WIDTH:
            print(short)
            continue
        print(f"    {group}::{name} {{")
        for label, names in parts.items():
            print("\n".join(lines(label, names)))
        print("    }")
    print("}")


main()
