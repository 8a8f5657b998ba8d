#!/usr/bin/env bash
# Reads GPUs out of a real Prometheus that scrapes stand-ins for dcgm-exporter, nvidia_gpu_exporter, all-smi and Ray.
#
#   sudo apt install prometheus        (Debian 12: 2.42.0; the service need not run)
#   cargo build && tests/parts/prometheus.sh [target/debug/oomdoctor]
#
# Everything listens on free ports of the loopback and lies in a temporary folder. Exits with 1 at the first thing that is not
# as it should be.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-target/debug/oomdoctor}")
folder=$(mktemp -d)
export XDG_CONFIG_HOME=$folder/none XDG_STATE_HOME=$folder/state HOME=$folder
children=()
finish() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT

# Waits until a command succeeds.
until_true() {
  for _ in $(seq 200); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done
  echo "never true: $*" >&2
  return 1
}

cat > "$folder/exporters.py" <<'P'
"""Prints what the exporters print, a path each; /fails answers for its first scrapes and then never again."""
import http.server, os, sys

H100 = 'modelName="NVIDIA H100 80GB HBM3"'

def dcgm(host_label, host, gpus):
    for gpu, uuid, used, free, util, more in gpus:
        labels = f'gpu="{gpu}",UUID="{uuid}",device="nvidia{gpu}",{H100},{host_label}="{host}",DCGM_FI_DRIVER_VERSION="570.124.06"{more}'
        yield f"DCGM_FI_DEV_FB_USED{{{labels}}} {used}"
        yield f"DCGM_FI_DEV_FB_FREE{{{labels}}} {free}"
        if util is not None:
            yield f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {util}"
        else:
            yield f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.5"

POD = ',container="train",namespace="ml",pod="llama-0"'
PAGES = {
    "/dcgm": lambda: dcgm("Hostname", "gpu-1", [
        (0, "GPU-aaa", 70000, 10500, 0, POD),
        (1, "GPU-bbb", 500, 80000, 0, ""),
        (2, "GPU-ccc", 30000, 50500, 97, ',hpc_job="81234"'),
        (3, "GPU-ddd", 9000, 700, None, ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"'),
        (4, "GPU-ggg", 5000, 75500, 0, ""),
    ]),
    "/dcgm-honored": lambda: dcgm("hostname", "gpu-2", [(0, "GPU-eee", 1000, 80000, 3, POD), (1, "GPU-fff", 2000, 79000, 3, "")]),
    "/nvidia": lambda: [
        'nvidia_smi_gpu_info{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa",name="NVIDIA GeForce RTX 2080 SUPER",driver_version="595.71.05",cuda_version="13.1",index="0"} 1',
        'nvidia_smi_memory_used_bytes{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 2147483648',
        'nvidia_smi_memory_free_bytes{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 6039797760',
        'nvidia_smi_memory_total_bytes{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 8589934592',
        'nvidia_smi_utilization_gpu_ratio{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 0.42',
        'nvidia_smi_compute_app_used_memory_bytes{pid="10291",process_name="/usr/bin/python3",uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 1073741824',
    ],
    "/all-smi": lambda: [
        'all_smi_gpu_memory_used_bytes{gpu="NVIDIA A100",instance="gpu-4",gpu_uuid="GPU-999",gpu_index="0"} 8589934592',
        'all_smi_gpu_memory_total_bytes{gpu="NVIDIA A100",instance="gpu-4",gpu_uuid="GPU-999",gpu_index="0"} 42949672960',
        'all_smi_gpu_utilization{gpu="NVIDIA A100",instance="gpu-4",gpu_uuid="GPU-999",gpu_index="0"} 42.5',
    ],
    "/ray": lambda: [
        'ray_node_gram_used{ip="10.0.0.5",GpuIndex="0",GpuDeviceName="NVIDIA H100",SessionName="s"} 1024',
        'ray_node_gram_available{ip="10.0.0.5",GpuIndex="0",GpuDeviceName="NVIDIA H100",SessionName="s"} 80535',
    ],
    "/fails": lambda: [] if os.path.exists(sys.argv[2]) else dcgm("hostname", "gpu-6", [(0, "GPU-666", 1, 2, 3, "")]),
}

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        lines = list(PAGES[self.path]())
        self.send_response(200 if lines else 500)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write("".join(line + "\n" for line in lines).encode())

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
with open(sys.argv[1], "w") as file:
    file.write(str(server.server_port))
server.serve_forever()
P
python3 "$folder/exporters.py" "$folder/port" "$folder/silenced" &
children+=($!)
until_true test -s "$folder/port"
port=$(cat "$folder/port")

# Which exporter is scraped at which address; the labels of the exporter win only where they are honored.
cat > "$folder/prometheus.yml" <<T
global: {scrape_interval: 1s}
scrape_configs:
- job_name: dcgm
  metrics_path: /dcgm
  static_configs:
  - targets: ['127.0.0.1:$port']
    labels: {instance: '10.0.0.1:9400', pod: dcgm-x, namespace: monitoring, container: exporter}
- job_name: honored
  metrics_path: /dcgm-honored
  honor_labels: true
  static_configs: [{targets: ['127.0.0.1:$port'], labels: {instance: '10.0.0.2:9400', pod: watcher, namespace: monitoring}}]
- {job_name: nvidia, metrics_path: /nvidia, static_configs: [{targets: ['127.0.0.1:$port'], labels: {instance: '10.0.0.3:9835'}}]}
- {job_name: allsmi, metrics_path: /all-smi, static_configs: [{targets: ['127.0.0.1:$port'], labels: {instance: '10.0.0.4:9090'}}]}
- {job_name: ray, metrics_path: /ray, static_configs: [{targets: ['127.0.0.1:$port'], labels: {instance: '10.0.0.5:44217'}}]}
- {job_name: fails, metrics_path: /fails, static_configs: [{targets: ['127.0.0.1:$port'], labels: {instance: '10.0.0.6:9400'}}]}
T
promtool check config "$folder/prometheus.yml" >/dev/null

# An hour in which two GPUs of gpu-1 did nothing, one of them with a pod, and twenty minutes of a third.
python3 - > "$folder/past.om" <<'P'
import time
now = int(time.time())
target = 'job="dcgm",instance="10.0.0.1:9400",pod="dcgm-x",namespace="monitoring",container="exporter"'
card = 'gpu="{0}",UUID="GPU-{1}",device="nvidia{0}",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-1",DCGM_FI_DRIVER_VERSION="570.124.06"'
print("# TYPE DCGM_FI_DEV_GPU_UTIL gauge")
pod = ',exported_container="train",exported_namespace="ml",exported_pod="llama-0"'
for index, uuid, more, seconds in [(0, "aaa", pod, 4200), (1, "bbb", "", 4200), (4, "ggg", "", 1200)]:
    for at in range(now - seconds, now - 5, 15):
        print(f"DCGM_FI_DEV_GPU_UTIL{{{target},{card.format(index, uuid)}{more}}} 0 {at}")
print("# EOF")
P
promtool tsdb create-blocks-from openmetrics "$folder/past.om" "$folder/data" >/dev/null

listen=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
prometheus --config.file="$folder/prometheus.yml" --web.listen-address="127.0.0.1:$listen" --web.route-prefix=/prom \
  --storage.tsdb.path="$folder/data" > "$folder/log" 2>&1 &
children+=($!)
url=http://127.0.0.1:$listen/prom
# All six have been scraped.
scraped() { curl -sfG --data-urlencode 'query=count(up == 1) == 6' "$url/api/v1/query" | grep -q '"value"'; }
until_true scraped
touch "$folder/silenced"
fallen_silent() { curl -sfG --data-urlencode 'query=up{job="fails"} == 0' "$url/api/v1/query" | grep -q '"value"'; }
until_true fallen_silent

"$program" ps --json --prometheus "$url" > "$folder/ps.json"
python3 - "$folder/ps.json" <<'P'
import json, sys
hosts = {host["host"]: host for host in json.load(open(sys.argv[1]))["hosts"]}
assert set(hosts) == {"gpu-1", "gpu-2", "10.0.0.3", "gpu-4", "10.0.0.5", "gpu-6"}, sorted(hosts)
def gpus(host): return hosts[host]["snapshot"]["devices"]
def users(host): return [(user["device"], user["name"], user["idle_seconds"]) for user in hosts[host]["users"]]
first = gpus("gpu-1")
assert [gpu["index"] for gpu in first] == [0, 1, 2, 3, 4], first
assert first[0]["memory"]["used_bytes"] == 70000 << 20 and first[0]["memory"]["total_bytes"] is None, first[0]
assert first[2]["utilization_percent"] == 97, first[2]
assert first[3]["nature"] == "mig-instance" and first[3]["utilization_percent"] == 50, first[3]
# The exporter's own pod uses no GPU; GPU 1 is idle, too, but has nothing in use; nobody knows of GPU 4 an hour ago.
assert users("gpu-1") == [(0, "pod ml/llama-0 (train)", 3600), (2, "job 81234", None), (4, None, 300)], users("gpu-1")
assert users("gpu-2") == [(0, "pod ml/llama-0 (train)", None)], users("gpu-2")
third = gpus("10.0.0.3")[0]
assert third["uuid"].startswith("GPU-df6e") and third["memory"]["total_bytes"] == 8 << 30, third
assert third["utilization_percent"] == 42 and third["name"] == "NVIDIA GeForce RTX 2080 SUPER", third
assert gpus("gpu-4")[0]["memory"]["free_bytes"] is None, gpus("gpu-4")
assert gpus("10.0.0.5")[0]["memory"]["total_bytes"] == 81559 << 20, gpus("10.0.0.5")
assert hosts["gpu-6"]["snapshot"] is None and "does not answer" in hosts["gpu-6"]["unavailable"], hosts["gpu-6"]
ages = [host["age_seconds"] for host in hosts.values() if host["snapshot"]]
assert all(age is not None and age <= 10 for age in ages), ages
P
"$program" ps --prometheus "$url"
# The wrong prefix, and a machine that is not this one.
! "$program" ps --prometheus "http://127.0.0.1:$listen" > "$folder/wrong" || { echo "a wrong prefix was taken" >&2; exit 1; }
grep -q 'api/v1' "$folder/wrong"
! "$program" ps --prometheus http://prom.lab:9090 2> "$folder/refused" || { echo "another machine was asked" >&2; exit 1; }
grep -q 'ssh -N -L 9090:localhost:9090 prom.lab' "$folder/refused"
echo "all as it should be"
