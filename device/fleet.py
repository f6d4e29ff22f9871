"""A Weft server and agents on one GPU machine, from a bundle of device/bundle.sh."""

import glob
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request


def wait_for(what, condition, seconds=60, every=0.05):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(every)
    raise TimeoutError(f"{what}: not within {seconds} s")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _first(patterns):
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)):
            return path
    return ""


class Site:
    """Where programs and libraries lie on this machine."""

    def __init__(self, bundle, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        with tarfile.open(bundle) as archive:
            archive.extractall(folder)
        self.bin = os.path.join(folder, "bin")
        packages = [p for p in sys.path if p.endswith("site-packages")]
        self.nccl = _first([f"{p}/nvidia/nccl/lib/libnccl.so.2" for p in packages])
        cudart = _first([f"{p}/nvidia/*/lib/libcudart.so.1[23]" for p in packages] + ["/usr/local/cuda/lib64/libcudart.so.1[23]"])
        self.libraries = ":".join([os.path.join(folder, "lib")] + ([os.path.dirname(cudart)] if cudart else []))

    def environment(self):
        return {**os.environ, "LD_LIBRARY_PATH": f"{self.libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")}


class Fleet:
    """One server, some agents. Use in a `with`."""

    def __init__(self, site, name, probes, agents, detector=None):
        """`agents`: by hostname, what to add to each agent's configuration."""
        self.site, self.folder = site, os.path.join(site.folder, name)
        os.makedirs(self.folder)
        self.grpc, self.http = free_port(), free_port()
        self.processes = {}
        self.hostnames = list(agents)
        server = {"grpc_address": f"127.0.0.1:{self.grpc}", "http_address": f"127.0.0.1:{self.http}",
                  "data_dir": f"{self.folder}/data", "insecure": True, "probes": probes,
                  "heartbeat_interval": "2s", "reconnect_spread": "0.2s"}
        if detector:
            server["detector"] = detector
        self._write("server", server)
        for hostname, more in agents.items():
            environment = {"LD_LIBRARY_PATH": site.libraries, **more.pop("probe_environment", {})}
            for variable in ("NCCL_NVLS_ENABLE",):
                if variable in os.environ:
                    environment[variable] = os.environ[variable]
            config = {"server_address": f"127.0.0.1:{self.grpc}", "state_dir": f"{self.folder}/{hostname}",
                      "insecure": True, "hostname": hostname, "probe_environment": environment, **more}
            if site.nccl:
                config["nccl_library"] = site.nccl
            self._write(hostname, config)

    def _write(self, name, config):
        with open(f"{self.folder}/{name}.yaml", "w") as f:
            json.dump(config, f, indent=1)  # JSON is YAML

    def start(self, name, program, prefix=()):
        log = open(f"{self.folder}/{name}.log", "ab")
        self.processes[name] = subprocess.Popen(
            [*prefix, os.path.join(self.site.bin, program), "--config", f"{self.folder}/{name}.yaml"],
            stdout=log, stderr=log, env=self.site.environment())
        return self.processes[name]

    def __enter__(self):
        try:
            self.start("server", "weft-server")
            wait_for("the server listening", self._listens)
            for hostname in self.hostnames:
                self.start(hostname, "weft-agent")
            wait_for("all agents", lambda: self.get("status").get("connectedAgents") == str(len(self.hostnames)))
        except BaseException:
            self.close()
            raise
        return self

    def _listens(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.http)) == 0

    def __exit__(self, *_):
        self.close()

    def close(self):
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)

    def runs(self, size=200):
        return self.get(f"runs?page_size={size}").get("runs", [])

    def ended_runs(self, probe=None):
        return [r for r in self.runs() if r.get("state") != "RUN_STATE_ACTIVE" and probe in (None, r["spec"]["name"])]

    def outcomes(self):
        """How often each (state, detail) came, most often first."""
        counts = {}
        for run in self.ended_runs():
            key = f"{run['spec']['name']}: {run['state']} {run.get('detail', '')[:300]}"
            counts[key] = counts.get(key, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: -item[1])[:12])

    def first_good(self, probe, seconds=60):
        """The first OK run of a probe, or None."""
        try:
            return wait_for("a good run", lambda: next(
                (r for r in self.ended_runs(probe) if r["state"] == "RUN_STATE_OK"), None), seconds)
        except TimeoutError:
            return None

    def log(self, name, last=20):
        with open(f"{self.folder}/{name}.log", errors="replace") as f:
            return f.read().splitlines()[-last:]

    def probe_pids(self, hostname=None):
        """Processes of probes by agent, all or of one."""
        pids = []
        for name, process in self.processes.items():
            if name == "server" or hostname not in (None, name):
                continue
            pids += [pid for pid in _children(process.pid) if _program(pid).startswith("weft-probe-")]
        return pids


def _children(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path) as f:
                found += [int(each) for each in f.read().split()]
        except OSError:
            pass  # it has just ended
    return found


def _program(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def gpu_memory_used_mib():
    """By GPU, as nvidia-smi says."""
    text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True).stdout
    return [int(line) for line in text.split()]


def gpu_processes():
    text = subprocess.run(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"],
                          capture_output=True, text=True, check=True).stdout
    return [int(line) for line in text.split() if line.strip().isdigit()]
