#!/usr/bin/env bash
# Reads nodes and pods through the real kubectl, from an API server that only knows recorded answers.
#
#   sudo apt install kubernetes-client python3        (Debian 12: kubectl 1.20.2; tried with 1.32.4, too)
#   cargo build && tests/parts/kubernetes.sh [target/debug/oomdoctor]
#
# The server listens on loopback only and ends with this script. Exits with 1 at the first thing that is not as it should be.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-target/debug/oomdoctor}")
folder=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
export KUBECONFIG=$folder/config HOME=$folder XDG_CONFIG_HOME=$folder/none XDG_STATE_HOME=$folder/state
unset KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT

cat > "$folder/server.py" <<'P'
import http.server, json, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
def node(name, allocatable, labels={}, spec={}, ready="True"):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
            "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]}}
def pod(name, node, limits, phase="Running", namespace="ml"):
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": "2026-11-22T00:00:00Z", "finishedAt": "2026-11-22T00:59:00Z"}}
    status = {"name": "train", "ready": True, "restartCount": 3, "image": "x", "imageID": "", "state": {"running": {"startedAt": "2026-11-22T01:00:00Z"}}, "lastState": last}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "uid": name},
            "spec": {"nodeName": node, "containers": [{"name": "train", "image": "x", "resources": {"limits": limits, "requests": limits}}]},
            "status": {"phase": phase, "containerStatuses": [status]}}
a100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920"}
nodes = [node("gpu-1", {"cpu": "64", "nvidia.com/gpu": "8"}, a100), node("gpu-2", {"nvidia.com/gpu": "4"}, spec={"unschedulable": True}),
         node("mig-1", {"nvidia.com/mig-1g.10gb": "7"}), node("cpu-1", {"cpu": "64"})]
pods = [pod("llama-0", "gpu-1", {"nvidia.com/gpu": "2"}), pod("init-0", "gpu-1", {"nvidia.com/gpu": "1"}, "Pending", "other"),
        pod("small", "mig-1", {"nvidia.com/mig-1g.10gb": "3"})]
def resource(name, kind, namespaced):
    return {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list", "create"]}
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body, code=200):
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def refuse(self, code, reason):
        self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason + ": it is so", "reason": reason, "code": code}, code)
    def do_GET(self):
        mode = (folder / "mode").read_text().strip()
        path, _, query = self.path.partition("?")
        with (folder / "asked").open("a") as log: log.write(self.command + " " + self.path + "\n")
        def items(kind, all): self.answer({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "1"}, "items": all})
        if path == "/version": self.answer({"major": "1", "minor": "32", "gitVersion": "v1.32.0"})
        elif path == "/api": self.answer({"kind": "APIVersions", "versions": ["v1"]})
        elif path == "/apis": self.answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "authorization.k8s.io", "versions": [{"groupVersion": "authorization.k8s.io/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "authorization.k8s.io/v1", "version": "v1"}}]})
        elif path == "/api/v1": self.answer({"kind": "APIResourceList", "groupVersion": "v1", "resources": [resource("pods", "Pod", True), resource("nodes", "Node", False)]})
        elif path == "/apis/authorization.k8s.io/v1": self.answer({"kind": "APIResourceList", "groupVersion": "authorization.k8s.io/v1", "resources": [resource("selfsubjectaccessreviews", "SelfSubjectAccessReview", False)]})
        elif mode == "hang": time.sleep(60)
        elif path == "/api/v1/nodes": items("NodeList", nodes)
        elif path.startswith("/api/v1/nodes/"):
            found = [one for one in nodes if path.endswith("/" + one["metadata"]["name"])]
            self.answer(found[0]) if found else self.refuse(404, "NotFound")
        elif path == "/api/v1/pods": self.refuse(403, "Forbidden") if mode == "own" else items("PodList", pods)
        elif path == "/api/v1/namespaces/default/pods": items("PodList", [pod("mine", "gpu-1", {"nvidia.com/gpu": "1"}, namespace="default")])
        elif path == "/api/v1/namespaces/ml/pods/llama-0": self.answer(pods[0])
        else: self.refuse(404, "NotFound")
    def do_POST(self):
        # kubectl writes it in its own binary form, and reads the answer as JSON.
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with (folder / "asked").open("a") as log: log.write(self.command + " " + self.path + "\n")
        if self.path.startswith("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"):
            allowed = (folder / "mode").read_text().strip() != "own"
            self.answer({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {}, "status": {"allowed": allowed}}, 201)
        else: self.refuse(403, "Forbidden")
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
(folder / "port").write_text(str(server.server_port))
server.serve_forever()
P
echo all > "$folder/mode"
python3 "$folder/server.py" "$folder" &
server=$!
# Waits until a command succeeds.
until_true() {
  for _ in $(seq 100); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done
  echo "never true: $*" >&2
  return 1
}
until_true test -s "$folder/port"
kubectl config set-cluster lab --server="http://127.0.0.1:$(cat "$folder/port")" > /dev/null
kubectl config set-context lab --cluster=lab > /dev/null && kubectl config use-context lab > /dev/null

# What the program says of machines: a Python expression over `hosts`, by name.
ask() {
  local test=$1
  shift
  "$program" ps --json "$@" > "$folder/asked.json" || true
  python3 - "$test" "$folder/asked.json" <<'P' || { cat "$folder/asked.json"; return 1; }
import json, sys
hosts = {one["host"]: one for one in json.load(open(sys.argv[2]))["hosts"]}
def allotment(name, *keys): return [hosts[name]["allotment"][key] for key in keys]
assert eval(sys.argv[1]), sys.argv[1]
P
}

echo "== nodes and pods"
ask 'sorted(hosts) == ["gpu-1", "gpu-2", "mig-1"]' --kube
ask 'allotment("gpu-1", "gpus", "given", "gpu_name", "gpu_memory_bytes", "is_open") == [8, 3, "NVIDIA-A100-SXM4-80GB", 80 * 2**30, True]' --kube
ask '[(one["source"], one["gpus"]) for one in allotment("gpu-1", "given_to")[0]] == [("pod:ml/llama-0", 2), ("pod:other/init-0", 1)]' --kube
ask 'allotment("gpu-2", "given", "is_open") == [0, False]' --kube
ask 'allotment("mig-1", "gpus", "slices") == [None, [{"name": "nvidia.com/mig-1g.10gb", "total": 7, "given": 3}]]' --kube
time "$program" ps --kube || true

echo "== a pod"
ask 'allotment("gpu-1", "gpus", "given_to")[1][0]["containers"][0]["last_end"]["reason"] == "OOMKilled"' --pod ml/llama-0
ask 'hosts["gpu-1"]["snapshot"] is None and "exec" in hosts["gpu-1"]["unavailable"]' --pod ml/llama-0
ask '"llama-9" in str(hosts["kubernetes"]["unavailable"]) or "NotFound" in hosts["kubernetes"]["unavailable"]' --pod ml/llama-9
ask 'len(hosts) == 3 and len(allotment("gpu-1", "given_to")[0]) == 2' --kube --pod ml/llama-0

echo "== only the pods of one's own namespace"
echo own > "$folder/mode"
ask 'allotment("gpu-1", "gpus", "given") == [8, None] and [one["source"] for one in allotment("gpu-1", "given_to")[0]] == ["pod:default/mine"]' --kube

echo "== a cluster that hangs"
echo hang > "$folder/mode"
time ask 'hosts["kubernetes"]["snapshot"] is None and hosts["kubernetes"]["unavailable"]' --kube
grep unavailable "$folder/asked.json"

echo "== no cluster"
kill "$server" && wait "$server" 2>/dev/null || true
server=
ask 'hosts["kubernetes"]["unavailable"]' --kube
grep unavailable "$folder/asked.json"
kubectl config unset current-context > /dev/null
ask '"use-context" in hosts["kubernetes"]["unavailable"]' --kube
# Nothing was asked for but reading; a POST is how rights are asked for, and how exec begins.
! grep -vE '^(GET |POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews|(GET|POST) /api/v1/namespaces/ml/pods/llama-0/exec)' "$folder/asked"
echo "all as it should be"
