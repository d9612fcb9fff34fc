#!/bin/sh
# Three API servers over three members of etcd, two controller managers, a scheduler and nodes, all on this machine; each kind of them is killed
# with kill -9 in the middle of a rollout that must not have more than five pods. docs/how-to/three-servers.md explains it.
#
#   examples/three-servers.sh
#
# Wants berth, kubectl, and etcd 3.4 or later in PATH. What it makes is in a temporary folder, and is removed at the end. It takes the ports 24001 to 24009;
# PORTS=30000 makes them 30001 to 30009.
set -eu
first=${PORTS:-24000}
folder=$(mktemp -d)
export KUBECACHEDIR="$folder/cache"

say() { printf '\n# %s\n' "$*"; }

# run NAME COMMAND...: in the background, its output in a file, its process id in another.
run() {
    name=$1
    shift
    : >>"$folder/$name.log"
    "$@" >>"$folder/$name.log" 2>&1 &
    echo $! >"$folder/$name.pid"
}

# until_prints NAME TEXT: within a minute, or what it printed is shown.
until_prints() {
    tries=0
    until grep -q "$2" "$folder/$1.log"; do
        tries=$((tries + 1))
        if [ $tries -gt 600 ] || ! kill -0 "$(cat "$folder/$1.pid")" 2>/dev/null; then
            cat "$folder/$1.log"
            echo "$1 did not print: $2" >&2
            exit 1
        fi
        sleep 0.1
    done
}

kill_9() {
    say "kill -9: $1"
    kill -9 "$(cat "$folder/$1.pid")"
    rm "$folder/$1.pid"
}

end() {
    for file in "$folder"/*.pid; do
        pid=$(cat "$file")
        # Only what is still a child of this shell: some have ended by themselves, and their numbers may be others' by now.
        if [ "$(ps -o ppid= -p "$pid" | tr -d ' ')" = $$ ]; then kill -9 "$pid" 2>/dev/null || true; fi
    done
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT

client() { echo "http://127.0.0.1:$((first + $1))"; }
peer() { echo "http://127.0.0.1:$((first + 3 + $1))"; }
members="m1=$(peer 1),m2=$(peer 2),m3=$(peer 3)"
endpoints="$(client 1),$(client 2),$(client 3)"
port() { echo "$((first + 6 + $1))"; }

member() {
    cat >"$folder/m$1.yaml" <<CONFIG
name: m$1
data-dir: $folder/m$1
listen-client-urls: $(client "$1")
advertise-client-urls: $(client "$1")
listen-peer-urls: $(peer "$1")
initial-advertise-peer-urls: $(peer "$1")
initial-cluster: $members
logger: zap
CONFIG
    run "member-$1" etcd --config-file "$folder/m$1.yaml"
}

server() {
    : >"$folder/server-$1.log"
    run "server-$1" berth apiserver --data-dir "$folder/server-$1" --secure-port "$(port "$1")" --advertise-address "192.0.2.$1" \
        --store etcd --etcd-servers "$endpoints" --client-ca-file "$folder/pki/ca.crt" \
        --tls-cert-file "$folder/pki/apiserver.crt" --tls-private-key-file "$folder/pki/apiserver.key" \
        --service-account-signing-key-file "$folder/pki/sa.key"
    until_prints "server-$1" 'API server ready'
}

# kubeconfig USER SERVER: one that leads to that server. Whoever was started with it a moment ago may be reading it: it is made once.
kubeconfig() {
    if [ ! -e "$folder/$1-$2.kubeconfig" ]; then
        sed "s,https://.*,https://127.0.0.1:$(port "$2")," "$folder/pki/$1.kubeconfig" >"$folder/new.kubeconfig"
        chmod 600 "$folder/new.kubeconfig"
        mv "$folder/new.kubeconfig" "$folder/$1-$2.kubeconfig"
    fi
    echo "$folder/$1-$2.kubeconfig"
}

# part NAME COMMAND SERVER [OPTIONS]: leases are shorter than the default, so that a takeover does not take 15 s. A write can take 7 s when etcd's leader is
# killed, and a part that cannot renew its lease for that long must keep it. The parts serve no health here, because two on one machine would need two ports.
part() {
    name=$1 command=$2 at=$3
    shift 3
    : >"$folder/$name.log"
    run "$name" berth "$command" --kubeconfig "$(kubeconfig "$command" "$at")" --leader-elect-lease-duration 10s --leader-elect-renew-deadline 8s \
        --leader-elect-retry-period 1s --secure-port 0 "$@"
}

# Server 3 is never killed here: it is who is asked.
ask() { kubectl --kubeconfig "$(kubeconfig admin 3)" "$@"; }

holder() { ask --namespace kube-system get lease berth-controller-manager --output jsonpath='{.spec.holderIdentity}'; }

# rollout IMAGE PART: PART is killed when the first new pod is there.
rollout() {
    say "web becomes $1"
    ask set image deployment/web "main=$1"
    until ask get pods --output jsonpath='{.items[*].spec.containers[0].image}' | grep -q "$1"; do sleep 0.05; done
    kill_9 "$2"
    ask rollout status deployment/web --timeout 60s
}

say 'credentials that all servers share'
berth pki init --dir "$folder/pki"
for number in 1 2 3; do member $number; done
for number in 1 2 3; do until_prints "member-$number" 'serving client traffic'; done
for number in 1 2 3; do server $number; done
say 'three API servers live'
ask get endpoints kubernetes

part manager-1 controller-manager 1
until_prints manager-1 'works on'
part manager-2 controller-manager 2
part scheduler scheduler 2
part nodes node 2 --nodes 3
ask apply --filename - <<'MANIFEST'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  podReplacementPolicy: TerminationComplete
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {sim.berth.dev/terminates-after: 500ms}
    spec:
      containers: [{name: main, image: 'web:1'}]
MANIFEST
ask rollout status deployment/web --timeout 60s
run witness kubectl --kubeconfig "$(kubeconfig admin 3)" get pods --watch --output-watch-events --no-headers
until_prints witness ADDED

rollout web:2 server-1
say 'the controllers of server 1 lost their API server: those of server 2 are the leaders now'
holder
echo
rollout web:3 member-1
server 1
part manager-1 controller-manager 1
until_prints manager-1 'waits to acquire'
rollout web:4 manager-2
say 'the next leads'
holder
echo
until ask get endpoints kubernetes --output jsonpath='{.subsets[*].addresses[*].ip}' | grep -q '192[.]0[.]2[.]1'; do sleep 0.2; done
say 'three API servers live again'
ask get endpoints kubernetes
say 'the most pods that there were at once, with those that were going'
awk '$1 == "ADDED" { pods++ } $1 == "DELETED" { pods-- } most < pods { most = pods } END { print most }' "$folder/witness.log"
