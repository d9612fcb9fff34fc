#!/usr/bin/env python3
"""Records what a real server stores for every field of a pod template that is given an empty value.

  record.py --server https://HOST:PORT --cacert ca.crt --cert admin.crt --key admin.key > recorded.jsonl

Run it by hand against a real Kubernetes, without controllers. It makes a StatefulSet of template.json beside this file, and then asks with
dry runs of PUT what would be stored if one field more were "", 0, false, {}, [] or null. Standard library only.
"""
import argparse, copy, http.client, json, os, ssl, sys, urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = "/apis/apps/v1/namespaces/default/statefulsets"
EMPTY = {"string": [""], "integer": [0], "boolean": [False], "array": [[]], "object": [{}], "any": ["", 0]}


class Server:
    def __init__(self, options):
        url = urllib.parse.urlsplit(options.server)
        context = ssl.create_default_context(cafile=options.cacert)
        context.load_cert_chain(options.cert, options.key)
        self.connection = http.client.HTTPSConnection(url.hostname, url.port, context=context)

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body)
        self.connection.request(method, path, data, {"Content-Type": "application/json", "Accept": "application/json"})
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())


class Schemas:
    def __init__(self, document):
        self.all = document["components"]["schemas"]

    def of(self, schema):
        for part in [schema] + schema.get("allOf", []):
            if "$ref" in part:
                return self.all[part["$ref"].rsplit("/", 1)[1]]
        return schema

    def kind(self, schema):
        schema = self.of(schema)
        return schema.get("type", "any")

    def fields(self, value, schema, path):
        """Every (path, kind) of a field that the value could have and does not."""
        schema = self.of(schema)
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from self.fields(item, schema["items"], path + [index])
        if not isinstance(value, dict):
            return
        for name, field in schema.get("properties", {}).items():
            if name == "managedFields":
                continue
            if name in value:
                yield from self.fields(value[name], field, path + [name])
            else:
                yield path + [name], self.kind(field)


def put(tree, path, value):
    for step in path[:-1]:
        tree = tree[step]
    tree[path[-1]] = value


def get(tree, path):
    for step in path:
        if isinstance(tree, dict) and step not in tree:
            return None, False
        tree = tree[step]
    return tree, True


def outcome(server, stored, path, value):
    document = copy.deepcopy(stored)
    put(document["spec"]["template"], path, value)
    status, answer = server.call("PUT", f"{PATH}/w?dryRun=All&fieldValidation=Strict", document)
    if status != 200:
        return "refused"
    old, new = stored["spec"]["template"], answer["spec"]["template"]
    raised = answer["metadata"]["generation"] != stored["metadata"]["generation"]
    if old == new and not raised:
        return "same"
    found, is_there = get(new, path)
    expected = copy.deepcopy(old)
    if is_there:
        put(expected, path, found)
    return {"stored": found, "elsewhere": expected != new, "raised": raised}


def main():
    parser = argparse.ArgumentParser()
    for option in ("--server", "--cacert", "--cert", "--key"):
        parser.add_argument(option, required=True)
    server = Server(parser.parse_args())
    schemas = Schemas(server.call("GET", "/openapi/v3/apis/apps/v1")[1])
    template = json.load(open(f"{HERE}/template.json"))
    spec = {"serviceName": "w", "replicas": 0, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "w"}, "spec": spec}
    server.call("DELETE", f"{PATH}/w")
    status, stored = server.call("POST", f"{PATH}?fieldValidation=Strict", made)
    assert status == 201, stored
    # A controller may write the status meanwhile.
    del stored["metadata"]["resourceVersion"]
    status, answer = server.call("PUT", f"{PATH}/w?dryRun=All&fieldValidation=Strict", stored)
    assert status == 200, answer
    recorded = []
    schema = {"$ref": "x/io.k8s.api.core.v1.PodTemplateSpec"}
    for path, kind in schemas.fields(stored["spec"]["template"], schema, []):
        for value in EMPTY.get(kind, []) + [None]:
            found = outcome(server, stored, path, value)
            if found != "refused":
                recorded.append([path, value, found])
    server.call("DELETE", f"{PATH}/w")
    print(json.dumps(stored["spec"]["template"]))
    for one in recorded:
        print(json.dumps(one))


main()
