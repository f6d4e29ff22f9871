#!/usr/bin/env python3
"""What an idle agent costs, beside prometheus-node-exporter scraped every 15 s.

Starts a weft-server, one weft-agent with its stream open and one prometheus-node-exporter, lets them settle,
and measures memory and CPU time of both over --seconds. Prints JSON; ends 1 when a limit does not hold:
agent RSS <= node exporter's, agent private memory <= 4 MB, agent CPU <= half of the node exporter's.
CPU is the sum of run time of all threads (schedstat, nanoseconds), not clock ticks. Private memory is
Private_Dirty: what the kernel cannot drop. Clean pages of the agent's own file also count as private to the
kernel, since no other process maps that file; they stand in private_bytes, and in the RSS that is judged.
"""

import argparse
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

LIMIT_PRIVATE_BYTES = 4_000_000
LIMIT_CPU_RATIO = 0.5
LIMIT_RSS_RATIO = 1.0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, condition, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.05)
    raise SystemExit(f"agent_idle: {what} did not happen within {seconds} s")


def accepts(port):
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0


def rollup(pid):
    """Bytes by field of smaps_rollup."""
    out = {}
    with open(f"/proc/{pid}/smaps_rollup") as f:
        for line in f.readlines()[1:]:
            name, value = line.split(":")
            out[name] = int(value.split()[0]) * 1024
    return out


def memory(pid):
    m = rollup(pid)
    return {
        "rss_bytes": m["Rss"],
        "pss_bytes": m["Pss"],
        "private_bytes": m["Private_Clean"] + m["Private_Dirty"],
        "private_dirty_bytes": m["Private_Dirty"],
        "anonymous_bytes": m["Anonymous"],
    }


def cpu_ns(pid):
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(path) as f:
                total += int(f.read().split()[0])
        except OSError:
            pass  # the thread has just ended
    return total


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


class Processes:
    def __init__(self, folder):
        self.folder = folder
        self.running = []

    def start(self, name, *arguments):
        log = open(os.path.join(self.folder, name + ".log"), "wb")
        process = subprocess.Popen(arguments, stdout=log, stderr=log)
        self.running.append(process)
        return process

    def stop(self):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def start_server(processes, options):
    grpc_port, http_port = free_port(), free_port()
    config = os.path.join(processes.folder, "server.yaml")
    with open(config, "w") as f:
        f.write(
            f'grpc_address: "127.0.0.1:{grpc_port}"\nhttp_address: "127.0.0.1:{http_port}"\n'
            f'data_dir: "{processes.folder}/data"\ninsecure: true\n'
            "probes:\n  - spec:\n      name: fabric_write\n      fabric: {}\n"
        )
    processes.start("server", os.path.join(options.bin_dir, "weft-server"), "--config", config)
    wait_for("the server listening", lambda: accepts(grpc_port))
    return grpc_port


def measure(options, folder):
    processes = Processes(folder)
    try:
        port = start_server(processes, options)
        agent = processes.start(
            "agent", os.path.join(options.bin_dir, "weft-agent"), "--server", f"127.0.0.1:{port}",
            "--state-dir", os.path.join(folder, "agent"), "--insecure")
        log = os.path.join(folder, "agent.log")
        wait_for("the agent's stream", lambda: b"connected to the server" in open(log, "rb").read())
        exporter_port = free_port()
        exporter = processes.start(
            "node_exporter", options.node_exporter, f"--web.listen-address=127.0.0.1:{exporter_port}")
        wait_for("the node exporter listening", lambda: accepts(exporter_port))

        url = f"http://127.0.0.1:{exporter_port}/metrics"
        scrape = lambda: urllib.request.urlopen(url).read()
        for _ in range(3):  # both as they are after a while, not as they start
            scrape()
            time.sleep(options.settle_seconds / 3)
        before = cpu_ns(agent.pid), cpu_ns(exporter.pid)
        start = time.monotonic()
        scrapes = 0
        while time.monotonic() - start < options.seconds:
            if time.monotonic() - start >= scrapes * 15:
                scrape()
                scrapes += 1
            time.sleep(0.2)
        elapsed = time.monotonic() - start
        agent_cpu = (cpu_ns(agent.pid) - before[0]) / 1e6 / elapsed
        exporter_cpu = (cpu_ns(exporter.pid) - before[1]) / 1e6 / elapsed
        result = {
            "seconds": round(elapsed, 1),
            "scrapes": scrapes,
            "agent": {**memory(agent.pid), "threads": threads(agent.pid), "cpu_ms_per_second": round(agent_cpu, 4)},
            "node_exporter": {**memory(exporter.pid), "threads": threads(exporter.pid),
                              "cpu_ms_per_second": round(exporter_cpu, 4)},
        }
        if agent.poll() is not None or exporter.poll() is not None:
            raise SystemExit("agent_idle: a process ended during the measurement")
        return result
    finally:
        processes.stop()


def judge(result):
    agent, exporter = result["agent"], result["node_exporter"]
    result["rss_ratio"] = round(agent["rss_bytes"] / exporter["rss_bytes"], 3)
    result["cpu_ratio"] = round(agent["cpu_ms_per_second"] / exporter["cpu_ms_per_second"], 3)
    result["holds"] = {
        "rss": result["rss_ratio"] <= LIMIT_RSS_RATIO,
        "private": agent["private_dirty_bytes"] <= LIMIT_PRIVATE_BYTES,
        "cpu": result["cpu_ratio"] <= LIMIT_CPU_RATIO,
    }
    return all(result["holds"].values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--bin-dir", default=os.path.join(root, "build/release/bin"))
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--settle-seconds", type=float, default=15)
    parser.add_argument("--node-exporter", default=shutil.which("prometheus-node-exporter"))
    options = parser.parse_args()
    if not options.node_exporter:
        raise SystemExit("agent_idle: prometheus-node-exporter is not installed")
    with tempfile.TemporaryDirectory(prefix="weft_idle_") as folder:
        result = measure(options, folder)
    good = judge(result)
    print(json.dumps(result, indent=2))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
