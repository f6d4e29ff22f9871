"""The nodes' links: real ones shaped by the kernel, or a token bucket in the probe that stands for them.

Both kinds offer the same: `address(index)`, `command(index)` to run something on a node, `set_rate`,
`rate(index)` as it really is now, in bytes per second.
"""

import json
import pathlib
import subprocess

SERVER_ADDRESS = "10.77.0.1"
# Enough for one GSO packet and some timer slack, and little beside the megabytes of a probe: a large burst would
# let the first part of each probe through at full speed.
BURST_BYTES = 64 * 1024
QUEUE = "20ms"


def _run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class NamespaceLinks:
    """Each node in a network namespace, joined by a veth pair to one bridge; both directions shaped by tbf."""

    shaping = "netns"
    server_address = SERVER_ADDRESS

    def __init__(self, count, bytes_per_second):
        # `ip netns` keeps its names here; a private /run leaves the host's alone.
        _run("mount", "-t", "tmpfs", "none", "/run")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "name", "fabric", "type", "bridge")
        _run("ip", "address", "add", f"{SERVER_ADDRESS}/24", "dev", "fabric")
        _run("ip", "link", "set", "fabric", "up")
        for index in range(count):
            self._join(index, bytes_per_second)

    def _join(self, index, bytes_per_second):
        node, port = f"node{index}", f"port{index}"
        _run("ip", "netns", "add", node)
        _run("ip", "link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", node)
        _run("ip", "link", "set", port, "master", "fabric", "up")
        _run("ip", "-n", node, "address", "add", f"{self.address(index)}/24", "dev", "eth0")
        _run("ip", "-n", node, "link", "set", "lo", "up")
        _run("ip", "-n", node, "link", "set", "eth0", "up")
        self._shape("add", index, bytes_per_second)

    def _shape(self, verb, index, bytes_per_second):
        rate = ["tbf", "rate", f"{round(bytes_per_second * 8)}bit", "burst", str(BURST_BYTES), "latency", QUEUE]
        _run("tc", "qdisc", verb, "dev", f"port{index}", "root", *rate)
        _run("tc", "-n", f"node{index}", "qdisc", verb, "dev", "eth0", "root", *rate)

    def set_rate(self, index, bytes_per_second):
        self._shape("change", index, bytes_per_second)

    def rate(self, index):
        """The slower direction, as the kernel says it."""
        ends = (
            _run("tc", "-j", "qdisc", "show", "dev", f"port{index}", "root"),
            _run("tc", "-n", f"node{index}", "-j", "qdisc", "show", "dev", "eth0", "root"),
        )
        return min(json.loads(end)[0]["options"]["rate"] for end in ends)

    def address(self, index):
        return f"10.77.0.{index + 10}"

    def domain(self):
        return "eth0"

    def command(self, index):
        return ["ip", "netns", "exec", f"node{index}"]

    def rate_file(self, _index):
        return None


class EmulatedLinks:
    """Everything on loopback; the agents read their link's rate from a file before each run."""

    shaping = "token_bucket"
    server_address = "127.0.0.1"

    def __init__(self, count, bytes_per_second, folder):
        self._folder = pathlib.Path(folder)
        for index in range(count):
            self.set_rate(index, bytes_per_second)

    def set_rate(self, index, bytes_per_second):
        # Replaced as a whole, so that an agent never reads half a number.
        fresh = self.rate_file(index).with_suffix(".new")
        fresh.write_text(f"{bytes_per_second:.0f}\n", encoding="ascii")
        fresh.replace(self.rate_file(index))

    def rate(self, index):
        return float(self.rate_file(index).read_text(encoding="ascii"))

    def address(self, _index):
        return "127.0.0.1"

    def domain(self):
        return "lo"

    def command(self, _index):
        return []

    def rate_file(self, index):
        return self._folder / f"link-{index}"
