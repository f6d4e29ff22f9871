"""A fleet of real processes on loopback for end-to-end tests, and what its database says."""

import contextlib
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE_DIR = pathlib.Path(os.environ.get("WEFT_SOURCE_DIR") or pathlib.Path(__file__).parents[2])
BIN_DIR = pathlib.Path(os.environ.get("WEFT_BIN_DIR") or SOURCE_DIR / "build/dev/bin")
TOOL_DIR = BIN_DIR.parent / "tests"
sys.path.insert(0, str(SOURCE_DIR / "deploy"))

from demo import fleet as fleets  # noqa: E402 (the path is set just above)
from demo import links as all_links  # noqa: E402

# Quick rounds of small probes; a pace that a sanitizer's build on busy cores keeps up with.
TUNING = fleets.Tuning(
    link_bytes_per_second=50e6, bytes_per_direction=2 << 20, concurrent_runs=2, baseline_runs=4, period_seconds=2,
    deadline_seconds=30,
)  # fmt: skip


def random_seed():
    """Printed, and taken from WEFT_SEED to repeat a run."""
    seed = int(os.environ.get("WEFT_SEED") or random.SystemRandom().randrange(1, 10**6))
    print(f"WEFT_SEED={seed}", flush=True)
    return seed


def wait_until(condition, what, seconds=60):
    """Polls another process's state; returns the first true value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(0.2)


class FleetTest(unittest.TestCase):
    """Starts a server and `NODES` agents for each test; shows the logs' ends when a test fails."""

    NODES = 4
    TLS = True

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="weft-e2e-")
        self.addCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)
        links = all_links.EmulatedLinks(self.NODES, TUNING.link_bytes_per_second, folder)
        self.fleet = fleets.Fleet(folder, BIN_DIR, links, self.NODES, TUNING, tls=self.TLS)
        self.cli = self.fleet.cli
        self.addCleanup(self._show_logs)
        self.addCleanup(self.fleet.close)
        self.fleet.write_configs()
        self.fleet.start_server()
        for index in range(self.NODES):
            self.fleet.start_agent(index)
        self.wait_for_answer()

    def _show_logs(self):
        if any(error for _, error in getattr(self._outcome, "errors", [])) or not self._outcome.success:
            for log in sorted(self.fleet.folder.glob("*.log")):
                lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
                print(f"--- {log.name}", *lines, sep="\n", flush=True)

    def wait_for_answer(self):
        """Until the server answers and all agents are connected."""

        def connected():
            with contextlib.suppress(RuntimeError):
                return int(self.cli.status()["connected_agents"]) >= self.NODES

        wait_until(connected, "all agents to connect")

    def rounds(self):
        return int(self.cli.status()["rounds"])

    def wait_rounds(self, count):
        """Runs that a crash cut off hold their nodes until their deadline."""
        target = self.rounds() + count
        wait_until(lambda: self.rounds() >= target, f"{count} rounds", 2 * TUNING.deadline_seconds + 20 * count)

    def query(self, sql, *values):
        """Rows from the server's database, read beside the running server."""
        (path,) = (self.fleet.folder / "server").glob("*.db")
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as database:
            return database.execute(sql, values).fetchall()

    def spooled(self, name):
        """(epoch, sequence, run id, rank) of the records in a stopped agent's spool."""
        command = [str(TOOL_DIR / "weft-e2e-spool-list"), str(self.fleet.folder / name)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return [(epoch, int(sequence), run, int(rank)) for epoch, sequence, run, rank in map(str.split, lines)]

    def bad_agent(self, case, *arguments):
        """What the misbehaving agent printed, as lists of words."""
        command = [str(TOOL_DIR / "weft-e2e-bad-agent"), f"127.0.0.1:{self.fleet.grpc_port}", case, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return [line.split(" ", 2) for line in done.stdout.splitlines()]
