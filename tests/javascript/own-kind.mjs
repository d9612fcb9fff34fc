// The JavaScript client with a kind of its own: define, create, apply, watch, status, scale, delete.
//
//     own-kind.mjs KUBECONFIG DEFINITION
//
// Needs npm's `@kubernetes/client-node` beside it. Exits 0 only if every step held; prints one line a step.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import * as k8s from '@kubernetes/client-node';

const PATIENCE_MS = 60_000;
const SHIPS = { group: 'fleet.example.com', version: 'v1', namespace: 'default', plural: 'ships' };
const PATH = '/apis/fleet.example.com/v1/namespaces/default/ships';

const config = new k8s.KubeConfig();
config.loadFromFile(process.argv[2]);
// The client's types name some members differently, such as `_default`.
const definition = k8s.loadYaml(readFileSync(process.argv[3], 'utf8'));
const definitions = config.makeApiClient(k8s.ApiextensionsV1Api);
const ships = config.makeApiClient(k8s.CustomObjectsApi);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);

const step = (text) => console.log(`javascript: ${text}`);
const merge = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);
const ship = (name, spec) => ({ apiVersion: 'fleet.example.com/v1', kind: 'Ship', metadata: { name, namespace: 'default' }, spec });

/** Rejects with the client's error, whose code it checks, and returns its body. */
async function refused(promise, code) {
    const error = await promise.then(
        () => assert.fail(`should have been refused with ${code}`),
        (error) => error,
    );
    assert.equal(error.code, code, String(error));
    return typeof error.body === 'string' ? error.body : JSON.stringify(error.body);
}

async function until(holds, what) {
    const end = Date.now() + PATIENCE_MS;
    while (!(await holds())) {
        assert.ok(Date.now() < end, `not in time: ${what}`);
        await sleep(20);
    }
}

const name = definition.metadata.name;
const isEstablished = ({ status }) => status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True');
await definitions.createCustomResourceDefinition({ body: definition });
await until(async () => isEstablished(await definitions.readCustomResourceDefinition({ name })), 'established');
step('defined');

// An informer keeps a cache of the kind.
const list = () => ships.listNamespacedCustomObject(SHIPS);
const informer = k8s.makeInformer(config, PATH, list);
const seen = [];
for (const event of ['add', 'update', 'delete']) {
    informer.on(event, (object) => seen.push(`${event} ${object.metadata.name} ${object.spec.color}`));
}
await informer.start();
const saw = (event) => until(() => seen.includes(event), event);

const made = await ships.createNamespacedCustomObject({ ...SHIPS, body: ship('a', { color: 'red' }) });
assert.deepEqual([made.spec, made.metadata.generation], [{ color: 'red', crew: 1 }, 1]);
await saw('add a red');
assert.match(await refused(ships.createNamespacedCustomObject({ ...SHIPS, body: ship('b', { color: 'red', crew: 10 }) }), 422), /a red ship has a crew of at most 9/);
step('created, validated and watched');

await ships.patchNamespacedCustomObject({ ...SHIPS, name: 'a', body: { spec: { color: 'blue' } } }, merge);
await saw('update a blue');
const status = await ships.patchNamespacedCustomObjectStatus({ ...SHIPS, name: 'a', body: { status: { crew: 1 } } }, merge);
assert.deepEqual([status.status, status.metadata.generation], [{ crew: 1 }, 2]);
await ships.patchNamespacedCustomObjectScale({ ...SHIPS, name: 'a', body: { spec: { replicas: 12 } } }, merge);
const scale = await ships.getNamespacedCustomObjectScale({ ...SHIPS, name: 'a' });
assert.deepEqual([scale.spec.replicas, scale.status.replicas], [12, 1]);
step('patched and scaled');

const applied = await objects.patch(ship('c', { color: 'red' }), undefined, undefined, 'javascript', false, k8s.PatchStrategy.ServerSideApply);
assert.equal(applied.spec.crew, 1);
await refused(objects.patch(ship('c', { color: 'blue' }), undefined, undefined, 'other', false, k8s.PatchStrategy.ServerSideApply), 409);
step('applied by the untyped client');

await ships.deleteNamespacedCustomObject({ ...SHIPS, name: 'a' });
await saw('delete a blue');
await informer.stop();
await definitions.deleteCustomResourceDefinition({ name });
await until(async () => !(await definitions.listCustomResourceDefinition()).items.some(({ metadata }) => metadata.name === name), 'no definition left');
await refused(list(), 404);
step('deleted with its definition');
process.exit(0);
