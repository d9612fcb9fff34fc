// The JavaScript client's journey against a running berth: every kind of write, scale, rollouts, watch, informer, delete.
//
//     journey.mjs KUBECONFIG
//
// Needs npm's `@kubernetes/client-node` beside it. Exits 0 only if every step held; prints one line a step.

import assert from 'node:assert/strict';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import * as k8s from '@kubernetes/client-node';

const NAMESPACE = 'javascript-journey';
const PATIENCE_MS = 60_000;
// Namespaces have config maps of their own.
const OURS = 'journey=informer';

const config = new k8s.KubeConfig();
config.loadFromFile(process.argv[2]);
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const namespace = NAMESPACE;

const step = (text) => console.log(`javascript: ${text}`);
const sentAs = (strategy) => k8s.setHeaderOptions('Content-Type', strategy);

const deployment = (replicas, image) => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', namespace },
    spec: {
        replicas,
        selector: { matchLabels: { app: 'web' } },
        template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'main', image }] } },
    },
});

/** Rejects with the client's error, whose code it checks, and gives the server's Status. */
async function refused(promise, code) {
    const error = await promise.then(
        () => assert.fail(`should have been refused with ${code}`),
        (error) => error,
    );
    assert.equal(error.code, code, String(error));
    return typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
}

/** Watches what `path` serves, from the list's version on, until `holds` is true of an event's object. */
async function watchUntil(using, path, query, holds) {
    let found;
    const ended = new Promise((resolve, reject) => {
        const look = (type, object) => {
            if (type === 'ERROR') reject(new Error(JSON.stringify(object)));
            if (holds(object, type)) {
                found = object;
                resolve();
            }
        };
        new k8s.Watch(using).watch(path, query, look, (error) => (found ? resolve() : reject(error ?? new Error('the watch ended'))))
            .then((request) => ended.finally(() => request.abort()).catch(() => {}));
    });
    await Promise.race([ended, sleep(PATIENCE_MS, undefined, { ref: false }).then(() => assert.fail(`nothing on ${path} in time`))]);
    return found;
}

const rolledOut = (replicas) => ({ metadata, status }) =>
    status?.observedGeneration >= metadata.generation &&
    [status.replicas, status.updatedReplicas, status.availableReplicas].every((count) => count === replicas);

const untilWeb = (holds) =>
    watchUntil(config, `/apis/apps/v1/namespaces/${namespace}/deployments`, { fieldSelector: 'metadata.name=web' }, holds);

async function until(holds, what) {
    const end = Date.now() + PATIENCE_MS;
    while (!(await holds())) {
        assert.ok(Date.now() < end, `not in time: ${what}`);
        await sleep(10);
    }
}

// Reads, changes, writes; again where a controller wrote a status meanwhile, as clients of any Kubernetes do.
async function replaced(read, change, write) {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
        const body = await read();
        change(body);
        try {
            return await write(body);
        } catch (error) {
            if (error.code !== 409 || Date.now() > end) throw error;
        }
    }
}

async function everyKindOfPatch() {
    const name = 'web';
    const patch = (strategy, body, more = {}) => apps.patchNamespacedDeployment({ name, namespace, body, ...more }, sentAs(strategy));
    let web = await patch(k8s.PatchStrategy.MergePatch, { metadata: { labels: { tier: 'front' } } });
    assert.equal(web.metadata.labels.tier, 'front');
    web = await patch(k8s.PatchStrategy.JsonPatch, [{ op: 'add', path: '/spec/revisionHistoryLimit', value: 3 }]);
    assert.equal(web.spec.revisionHistoryLimit, 3);
    const environment = { spec: { template: { spec: { containers: [{ name: 'main', env: [{ name: 'A', value: '1' }] }] } } } };
    web = await patch(k8s.PatchStrategy.StrategicMergePatch, environment);
    assert.deepEqual(web.spec.template.spec.containers.map(({ image, env }) => [image, env[0].name]), [['web:1', 'A']]);
    const failed = await refused(patch(k8s.PatchStrategy.JsonPatch, [{ op: 'test', path: '/spec/replicas', value: 99 }]), 422);
    assert.equal(failed.reason, 'Invalid');
    const typo = await refused(patch(k8s.PatchStrategy.MergePatch, { spec: { replicsa: 1 } }, { fieldValidation: 'Strict' }), 422);
    assert.match(typo.message, /unknown field "spec.replicsa"/);
    step('patched in three ways');
}

async function serverSideApply() {
    const name = 'web';
    const apply = (body, more = {}) =>
        apps.patchNamespacedDeployment({ name, namespace, body, fieldManager: 'one', ...more }, sentAs(k8s.PatchStrategy.ServerSideApply));
    const identity = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name, namespace } };
    const conflict = await refused(apply({ ...identity, spec: { replicas: 4 } }), 409);
    assert.match(conflict.message, /^Apply failed with 1 conflict: conflict with ".*" using apps\/v1: \.spec\.replicas$/);
    assert.deepEqual(conflict.details.causes.map(({ reason, field }) => [reason, field]), [['FieldManagerConflict', '.spec.replicas']]);
    const taken = await apply({ ...identity, spec: { replicas: 4 } }, { force: true });
    assert.equal(taken.spec.replicas, 4);
    assert.ok(taken.metadata.managedFields.some(({ manager, operation }) => manager === 'one' && operation === 'Apply'));
    const again = await apply({ ...identity, spec: { replicas: 4 } });
    assert.equal(again.metadata.generation, taken.metadata.generation);

    // The same through the client for any kind, which finds paths by discovery.
    const objects = k8s.KubernetesObjectApi.makeApiClient(config);
    const settings = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'settings', namespace }, data: { a: '1' } };
    const made = await objects.patch(settings, undefined, undefined, 'one', true, k8s.PatchStrategy.ServerSideApply);
    assert.equal(made.data.a, '1');
    settings.data = { b: '2' };
    await objects.patch(settings, undefined, undefined, 'one', true, k8s.PatchStrategy.ServerSideApply);
    assert.deepEqual((await objects.read(settings)).data, { b: '2' });
    await objects.delete(settings);
    await refused(objects.read(settings), 404);
    await untilWeb(rolledOut(4));
    step('applied, refused, forced');
}

async function scaleAndRollOut() {
    const name = 'web';
    await replaced(
        () => apps.readNamespacedDeploymentScale({ name, namespace }),
        (scale) => (scale.spec.replicas = 5),
        (body) => apps.replaceNamespacedDeploymentScale({ name, namespace, body }),
    );
    await untilWeb(rolledOut(5));
    const stale = await apps.readNamespacedDeployment({ name, namespace });
    stale.metadata.resourceVersion = '1';
    assert.equal((await refused(apps.replaceNamespacedDeployment({ name, namespace, body: stale }), 409)).reason, 'Conflict');

    await replaced(
        () => apps.readNamespacedDeployment({ name, namespace }),
        (web) => (web.spec.template.spec.containers[0].image = 'web:2'),
        (body) => apps.replaceNamespacedDeployment({ name, namespace, body }),
    );
    await untilWeb(rolledOut(5));
    const { items } = await core.listNamespacedPod({ namespace, labelSelector: 'app=web', fieldSelector: 'status.phase=Running' });
    const images = items.filter((pod) => !pod.metadata.deletionTimestamp).map((pod) => pod.spec.containers[0].image);
    assert.deepEqual(images, Array(5).fill('web:2'));
    assert.ok(items[0].status.startTime instanceof Date);
    const sets = await apps.listNamespacedReplicaSet({ namespace });
    assert.deepEqual(sets.items.map((set) => set.spec.replicas).sort(), [0, 0, 5], 'created, patched, replaced');
    step('scaled and rolled out');
}

async function pages() {
    const seen = new Set();
    let token;
    do {
        const page = await core.listNamespacedPod({ namespace, limit: 2, _continue: token });
        assert.ok(page.items.length <= 2);
        page.items.forEach((pod) => seen.add(pod.metadata.uid));
        token = page.metadata._continue;
    } while (token);
    assert.ok(seen.size >= 5);
    step('listed by pages');
}

/** Hands bytes on to berth, and can cut every connection. */
async function line() {
    const { hostname, port } = new URL(config.getCurrentCluster().server);
    const sockets = new Set();
    const server = net.createServer((near) => {
        const far = net.connect(Number(port), hostname);
        for (const [from, to] of [[near, far], [far, near]]) {
            sockets.add(from);
            from.pipe(to);
            from.on('error', () => to.destroy());
            from.on('close', () => (sockets.delete(from), to.destroy()));
        }
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const through = new k8s.KubeConfig();
    through.loadFromFile(process.argv[2]);
    const cluster = through.getCurrentCluster();
    through.clusters = [{ ...cluster, server: `https://127.0.0.1:${server.address().port}` }];
    return { through, cut: () => sockets.forEach((socket) => socket.destroy()), close: () => server.close() };
}

/** An informer over a line that breaks goes on where it was: nothing is missed, and nothing is listed again. */
async function informer() {
    const { through, cut, close } = await line();
    let lists = 0;
    const list = () => ((lists += 1), through.makeApiClient(k8s.CoreV1Api).listNamespacedConfigMap({ namespace, labelSelector: OURS }));
    const informed = k8s.makeInformer(through, `/api/v1/namespaces/${namespace}/configmaps`, list, OURS);
    const seen = [];
    for (const verb of ['add', 'update', 'delete']) {
        informed.on(verb, ({ metadata, data }) => seen.push(`${verb} ${metadata.name} ${data?.n ?? ''}`.trim()));
    }
    // Stopping it is told as an error too.
    let wanted = true;
    informed.on('error', () => wanted && informed.start());
    const map = (name, n) => ({ metadata: { name, labels: { journey: 'informer' } }, data: { n } });
    const put = (name, n) => core.createNamespacedConfigMap({ namespace, body: map(name, n) });
    await put('before', '0');
    await informed.start();
    await until(() => seen.length === 1, 'the list');
    await put('while', '1');
    await until(() => seen.length === 2, 'a new object');
    cut();
    await core.replaceNamespacedConfigMap({ name: 'while', namespace, body: map('while', '2') });
    await core.deleteNamespacedConfigMap({ name: 'before', namespace });
    await put('after', '3');
    await until(() => seen.length === 5, `what happened while the line was broken: ${seen}`);
    assert.deepEqual(seen, ['add before 0', 'add while 1', 'update while 2', 'delete before 0', 'add after 3']);
    assert.deepEqual(informed.list().map(({ metadata }) => metadata.name).sort(), ['after', 'while']);
    assert.equal(lists, 1);
    wanted = false;
    await informed.stop();
    close();
    step('an informer goes on after its connection broke');
}

async function bookmarksAndStreamedLists() {
    const query = { labelSelector: OURS, sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: true };
    const names = [];
    const bookmark = await watchUntil(config, `/api/v1/namespaces/${namespace}/configmaps`, query, (object, type) => {
        if (type === 'ADDED') names.push(object.metadata.name);
        return type === 'BOOKMARK';
    });
    assert.equal(bookmark.metadata.annotations['k8s.io/initial-events-end'], 'true');
    assert.deepEqual(names.sort(), ['after', 'while']);
    step('a list streamed');
}

async function othersRights() {
    const account = { metadata: { name: 'robot' } };
    await core.createNamespacedServiceAccount({ namespace, body: account });
    const answer = await core.createNamespacedServiceAccountToken({ name: 'robot', namespace, body: { spec: { audiences: [], expirationSeconds: 600 } } });
    const robot = new k8s.KubeConfig();
    robot.loadFromOptions({
        clusters: config.clusters,
        users: [{ name: 'robot', token: answer.status.token }],
        contexts: [{ name: 'robot', cluster: config.getCurrentCluster().name, user: 'robot' }],
        currentContext: 'robot',
    });
    const pods = robot.makeApiClient(k8s.CoreV1Api);
    const status = await refused(pods.listNamespacedPod({ namespace }), 403);
    assert.match(status.message, /^pods is forbidden: User "system:serviceaccount:javascript-journey:robot" cannot list resource "pods"/);
    await config.makeApiClient(k8s.RbacAuthorizationV1Api).createNamespacedRoleBinding({
        namespace,
        body: {
            metadata: { name: 'robot-views' },
            roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
            subjects: [{ kind: 'ServiceAccount', name: 'robot', namespace }],
        },
    });
    assert.ok((await pods.listNamespacedPod({ namespace })).items.length >= 5);
    step('a service account with its token');
}

async function whatIsNotThere() {
    const { items } = await core.listNamespacedPod({ namespace, limit: 1 });
    const name = items[0].metadata.name;
    assert.match(await core.readNamespacedPodLog({ name, namespace }), /simulated container/);
    await refused(core.readNamespacedPod({ name: 'nobody', namespace }), 404);
    await refused(apps.createNamespacedDeployment({ namespace, body: deployment(1, 'web:1') }), 409);
    const invalid = deployment(-1, '');
    invalid.metadata.name = 'Bad_Name';
    const status = await refused(apps.createNamespacedDeployment({ namespace, body: invalid }), 422);
    const fields = status.details.causes.map(({ field }) => field);
    assert.deepEqual(fields.sort(), ['metadata.name', 'spec.replicas', 'spec.template.spec.containers[0].image']);
    step('mistakes are told');
}

async function evictAndDelete() {
    await config.makeApiClient(k8s.PolicyV1Api).createNamespacedPodDisruptionBudget({
        namespace,
        body: { metadata: { name: 'web' }, spec: { minAvailable: 5, selector: { matchLabels: { app: 'web' } } } },
    });
    const { items } = await core.listNamespacedPod({ namespace, labelSelector: 'app=web' });
    const name = items[0].metadata.name;
    const evict = () => core.createNamespacedPodEviction({ name, namespace, body: { metadata: { name } } });
    await until(async () => (await config.makeApiClient(k8s.PolicyV1Api).readNamespacedPodDisruptionBudget({ name: 'web', namespace })).status?.expectedPods === 5, 'the budget');
    assert.match((await refused(evict(), 429)).message, /disruption budget/);

    for (const propagationPolicy of ['Background', 'Foreground']) {
        await apps.deleteNamespacedDeployment({ name: 'web', namespace, body: { propagationPolicy } });
        await until(async () => (await core.listNamespacedPod({ namespace })).items.length === 0, 'no pod left');
        await until(async () => (await apps.listNamespacedDeployment({ namespace })).items.length === 0, 'no Deployment left');
        await apps.createNamespacedDeployment({ namespace, body: deployment(2, 'web:1') });
        await untilWeb(rolledOut(2));
    }
    await core.deleteNamespace({ name: namespace });
    await until(async () => !(await core.listNamespace()).items.some(({ metadata }) => metadata.name === namespace), 'the namespace is gone');
    step('evicted, deleted, gone');
}

await core.createNamespace({ body: { metadata: { name: namespace } } });
const created = await apps.createNamespacedDeployment({ namespace, body: deployment(3, 'web:1') });
assert.equal(created.spec.progressDeadlineSeconds, 600);
await untilWeb(rolledOut(3));
step('created and watched until rolled out');
await everyKindOfPatch();
await serverSideApply();
await scaleAndRollOut();
await pages();
await informer();
await bookmarksAndStreamedLists();
await othersRights();
await whatIsNotThere();
await evictAndDelete();
