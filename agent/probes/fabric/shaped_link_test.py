#!/usr/bin/env python3
"""Measures a really shaped link: two network namespaces, a veth pair and tc tbf.

Claims: over 1 Gbit/s the probe is within 5 % of what iperf3 measures on the same link, and 900 and
1,000 Mbit/s are told apart in every one of the runs. Needs root, ip, tc and iperf3; ends with 77 (skipped)
and the reason otherwise. Touches nothing but the namespaces it makes, and removes them.

usage: shaped_link_test.py BIN_DIR [--runs N]
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
PREFIX = "weft-link-"


def run(*command, **kwargs):
    return subprocess.run(command, check=True, text=True, capture_output=True, **kwargs).stdout


class Link:
    """Two namespaces, each with one interface called veth0, joined and shaped in both directions."""

    def __init__(self):
        self.names = [f"{PREFIX}{os.getpid()}-{os.urandom(2).hex()}-{side}" for side in "ab"]
        self.addresses = ["198.18.77.1", "198.18.77.2"]
        self.made = []

    def __enter__(self):
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
                self.made.append(name)
            run("ip", "-n", self.names[0], "link", "add", "veth0", "type", "veth",
                "peer", "name", "veth0", "netns", self.names[1])
            for name, address in zip(self.names, self.addresses):
                run("ip", "-n", name, "address", "add", address + "/30", "dev", "veth0")
                run("ip", "-n", name, "link", "set", "veth0", "up")
                run("ip", "-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.made:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def shape(self, megabits):
        for name in self.names:
            run("tc", "-n", name, "qdisc", "replace", "dev", "veth0", "root", "tbf",
                "rate", f"{megabits}mbit", "burst", "256kb", "latency", "50ms")

    def iperf3(self, seconds=2):
        """Mbit/s from a to b, as the receiver counts them."""
        server = subprocess.Popen(["ip", "netns", "exec", self.names[1], "iperf3", "-s", "-1"],
                                  stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 20
            while True:
                client = subprocess.run(
                    ["ip", "netns", "exec", self.names[0], "iperf3", "-c", self.addresses[1], "-J", "-t",
                     str(seconds), "-O", "1"], text=True, capture_output=True, check=False)
                report = json.loads(client.stdout or "{}")
                if "end" in report and "sum_received" in report["end"]:
                    return report["end"]["sum_received"]["bits_per_second"] / 1e6
                if time.monotonic() > deadline:
                    raise RuntimeError("iperf3: " + report.get("error", client.stderr))
                time.sleep(0.05)  # until its server listens
        finally:
            server.kill()
            server.wait()


class Weft:
    """The pair of probes, each in its namespace."""

    def __init__(self, link, bin_dir, folder):
        self.pair = os.path.join(bin_dir, "weft-fabric-pair")
        self.folders = []
        for name in link.names:
            self.folders.append(os.path.join(folder, name))
            os.mkdir(self.folders[-1])
            script = os.path.join(self.folders[-1], "weft-probe-fabric")
            with open(script, "w", encoding="utf-8") as out:
                out.write(f"#!/bin/sh\nexec ip netns exec {name} {bin_dir}/weft-probe-fabric\n")
            os.chmod(script, 0o700)

    def measure(self):
        """Mbit/s by rank: the whole timed part, and the median of its blocks."""
        done = subprocess.run([self.pair, "--probe-dir0", self.folders[0], "--probe-dir1", self.folders[1],
                               "--bytes", str(64 << 20), "--deadline", "60"],
                              text=True, capture_output=True, check=False)
        results = json.loads(done.stdout)
        for result in results:
            if result.get("outcome") != "OUTCOME_OK":
                raise RuntimeError(f"probe: {result}")
        found = [r["measurements"][0] for r in results]
        return ([m["value"] * 8 / 1e6 for m in found], [m["distribution"]["p50"] * 8 / 1e6 for m in found])


def why_not():
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    for tool in ("ip", "tc", "iperf3"):
        if shutil.which(tool) is None:
            return f"needs {tool}"
    probe = f"weft-probe-{os.getpid():x}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode != 0:
        return "this kernel or container allows no network namespaces"
    subprocess.run(["ip", "netns", "delete", probe], check=False)
    return None


def remove_leftovers():
    """Namespaces of runs that were killed before they could clean up."""
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0] if line else ""
        owner = name[len(PREFIX):].split("-")[0] if name.startswith(PREFIX) else ""
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            subprocess.run(["ip", "netns", "delete", name], check=False)


def compare_with_iperf3(link, weft):
    link.shape(1000)
    best = []
    for _ in range(3):
            best.append((link.iperf3(), *weft.measure()[0]))
    iperf3 = max(b[0] for b in best)
    by_rank = [max(b[1] for b in best), max(b[2] for b in best)]
    print(f"1000 mbit: iperf3 {iperf3:.1f}, weft {by_rank[0]:.1f} and {by_rank[1]:.1f} Mbit/s, "
          f"ratio {by_rank[0] / iperf3:.4f} and {by_rank[1] / iperf3:.4f}")
    return all(abs(value / iperf3 - 1) <= 0.05 for value in by_rank)


def tell_apart(link, weft, runs):
    values, wholes = {900: [], 1000: []}, {900: [], 1000: []}
    apart = 0
    for i in range(runs):
        for rate in (900, 1000) if i % 2 == 0 else (1000, 900):
            link.shape(rate)
            # Both directions are shaped alike, and a core that is taken away slows only the blocks it hits.
            whole, median = weft.measure()
            wholes[rate].append(max(whole))
            values[rate].append(max(median))
        apart += values[900][-1] < 0.95 * values[1000][-1]
    for name, measured in (("median block", values), ("whole", wholes)):
        for rate, seen in measured.items():
            print(f"{rate} mbit, {name}: {min(seen):.1f}/{statistics.median(seen):.1f}/{max(seen):.1f} Mbit/s "
                  "(min/median/max)")
    print(f"told apart in {apart} of {runs} runs")
    return apart == runs and max(values[900]) < min(values[1000])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin_dir")
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    reason = why_not()
    if reason:
        print("skipped:", reason)
        return SKIPPED
    # A time-out of the caller must not leave namespaces.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    remove_leftovers()
    with Link() as link, tempfile.TemporaryDirectory(prefix="weft-shaped-") as folder:
        weft = Weft(link, os.path.abspath(arguments.bin_dir), folder)
        good = compare_with_iperf3(link, weft)
        good = tell_apart(link, weft, arguments.runs) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
