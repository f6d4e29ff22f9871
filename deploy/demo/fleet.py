"""One server and its agents: configuration files, certificates, processes."""

import contextlib
import dataclasses
import json
import pathlib
import signal
import socket
import subprocess
import time

from demo import certificates
from demo import weft_cli

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Tuning:
    """Speed of the demo: a real fleet would probe each quarter of an hour."""

    link_bytes_per_second: float = 12.5e6  # 100 Mbit/s: links, not these few cores, are the limit
    bytes_per_direction: int = 4 * MIB  # and half as many to warm up
    concurrent_runs: int = 4
    baseline_runs: int = 5
    period_seconds: float = 5
    deadline_seconds: float = 20  # of one run

    @staticmethod
    def for_nodes(count):
        """A round lasts as long as its waves of runs, each about one second, and one that is slow."""
        waves = -(-(count // 2) // Tuning.concurrent_runs)
        return Tuning(period_seconds=3 + 2 * waves)


def node_name(index):
    return f"node-{index:02d}"


def _free_port(address):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def _write(path, config):
    # JSON is YAML too, and needs no library to write.
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return path


class Fleet:
    """Owns the processes it starts. One thread. `close` stops them all and never raises."""

    def __init__(self, folder, bin_dir, links, count, tuning, receiver=None, tls=True):
        self.folder, self.bin_dir, self.links, self.count = pathlib.Path(folder), pathlib.Path(bin_dir), links, count
        self.tuning = tuning
        self._tls = tls
        self._processes = {}
        self.external_url = ""
        self._authority = certificates.Authority(self.folder / "tls") if tls else None
        self.grpc_port = _free_port(links.server_address)
        self.http_port = _free_port(links.server_address)
        self._receiver = receiver
        operator = self._issue("operator", "demo")
        self.cli = weft_cli.Cli(self.bin_dir / "weft", f"{links.server_address}:{self.grpc_port}", operator)

    def _issue(self, role, name, hosts=()):
        return self._authority.issue(role, name, hosts) if self._tls else None

    def _security(self, role, name, hosts=()):
        return {"tls": self._issue(role, name, hosts)} if self._tls else {"insecure": True}

    def _probe(self):
        fabric = {
            "provider": "tcp;ofi_rxm",
            "domain": self.links.domain(),
            "message_size_bytes": [MIB],
            "bytes_per_size": self.tuning.bytes_per_direction,
            "skip_latency": True,
        }
        return {
            "spec": {"name": "fabric_write", "fabric": fabric},
            "period": f"{self.tuning.period_seconds:g}s",
            "deadline": f"{self.tuning.deadline_seconds:g}s",
            "max_concurrent_runs": self.tuning.concurrent_runs,
        }

    def _server_config(self):
        address = self.links.server_address
        config = {
            "grpc_address": f"{address}:{self.grpc_port}",
            "http_address": f"{address}:{self.http_port}",
            "data_dir": str(self.folder / "server"),
            "probes": [self._probe()],
            "detector": {"baseline_runs": self.tuning.baseline_runs},
            "heartbeat_interval": "2s",
            "missing_after": "60s",
            "reconnect_spread": "1s",
        }
        config.update(self._security("server", "demo", (f"IP:{address}", "IP:127.0.0.1", "DNS:localhost")))
        if self._receiver:
            url, secret = self._receiver
            secret_file = self.folder / "webhook.secret"
            secret_file.touch(mode=0o600)
            secret_file.write_text(secret + "\n", encoding="ascii")
            config["receivers"] = [{"name": "demo", "url": url, "secret_file": str(secret_file)}]
        if self.external_url:
            config["external_url"] = self.external_url
        return config

    def _agent_config(self, index):
        config = {
            "server_address": f"{self.links.server_address}:{self.grpc_port}",
            "state_dir": str(self.folder / node_name(index)),
            "hostname": node_name(index),
            "labels": {"rack": f"r{index // 4 + 1}"},
            "probe_dir": str(self.bin_dir),
        }
        config.update(self._security("agent", node_name(index)))
        if self.links.rate_file(index):
            config["emulated_link_file"] = str(self.links.rate_file(index))
        return config

    def write_configs(self):
        _write(self.folder / "server.yaml", self._server_config())
        for index in range(self.count):
            _write(self.folder / f"{node_name(index)}.yaml", self._agent_config(index))

    def _start(self, name, prefix, command):
        log = open(self.folder / f"{name}.log", "ab")
        # Own sessions: a Ctrl-C at the terminal is the demo's to handle. Should the demo be killed outright,
        # its processes go with it.
        with log:
            self._processes[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *prefix, *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def start_server(self):
        config = str(self.folder / "server.yaml")
        self._start("server", [], [str(self.bin_dir / "weft-server"), "--config", config])

    def start_agent(self, index):
        config = str(self.folder / f"{node_name(index)}.yaml")
        command = [str(self.bin_dir / "weft-agent"), "--config", config]
        self._start(node_name(index), self.links.command(index), command)

    def process(self, name):
        return self._processes[name]

    def kill(self, name):
        """kill -9, and gone when this returns."""
        self._processes[name].kill()
        self._processes[name].wait()

    def stop(self, name):
        """SIGTERM, and gone when this returns."""
        self._processes[name].terminate()
        self._processes[name].wait(30)

    def dead(self):
        """Names of processes that ended although nobody asked them to, with the last line they logged."""
        return [f"{name} ended with {p.returncode}: {self.last_line(name)}"
                for name, p in self._processes.items() if p.poll() is not None]  # fmt: skip

    def last_line(self, name):
        lines = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "(no output)"

    def resident_bytes(self, name):
        with open(f"/proc/{self._processes[name].pid}/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def close(self):
        """Agents first, so that they see a server to the end."""
        for name in sorted(self._processes, key=lambda n: n == "server"):
            with contextlib.suppress(OSError):
                self._processes[name].send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 5
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
