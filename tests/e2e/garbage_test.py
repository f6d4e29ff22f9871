"""What strangers and broken agents send is refused clearly, counted, and disturbs nobody else."""

import random
import socket
import subprocess
import tempfile
import unittest

import e2e_fleet


def _is_over(run):
    return run["state"] != "RUN_STATE_ACTIVE"


def _has_bad_agent(run):
    return any(p["node_id"] == "bad-agent" for p in run["participants"])


class GarbageTest(e2e_fleet.FleetTest):
    TLS = False

    def setUp(self):
        super().setUp()
        self.wait_rounds(1)

    def tearDown(self):
        """Whatever a test sent: the fleet goes on, all runs are fine and nobody is blamed."""
        before = self.results()
        e2e_fleet.wait_until(lambda: self.results() >= before + self.NODES, "results after the garbage")
        self.assertEqual(self.fleet.dead(), [])
        ended = [run for run in self.cli.runs(50) if _is_over(run) and not _has_bad_agent(run)]
        self.assertEqual([run for run in ended if run["state"] != "RUN_STATE_OK"], [])
        blamed = {name for finding in self.cli.findings() for name in finding["hostnames"]}
        self.assertLessEqual(blamed, {"bad-agent"})
        super().tearDown()

    def results(self):
        return int(self.cli.status()["results_stored"])

    def rejected(self):
        return int(self.cli.status()["records_rejected"])

    def some_run(self):
        return next(r["run_id"] for r in self.cli.runs(20) if r["state"] == "RUN_STATE_OK")

    def send(self, data):
        """Sends raw bytes to the gRPC port and reads until the server ends it or a second passes."""
        with socket.create_connection(("127.0.0.1", self.fleet.grpc_port), timeout=1) as connection:
            try:
                connection.sendall(data)
                while connection.recv(65536):
                    pass
            except OSError:
                pass

    def test_garbage_bytes_on_the_grpc_port(self):
        chance = random.Random(e2e_fleet.random_seed())
        self.send(b"GET / HTTP/1.1\r\nHost: weft\r\n\r\n")
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + chance.randbytes(4096))
        self.send(b"\x16\x03\x01\x02\x00" + chance.randbytes(512))
        for _ in range(20):
            self.send(chance.randbytes(chance.randint(1, 5000)))

    def test_garbage_bytes_on_the_http_port(self):
        chance = random.Random(e2e_fleet.random_seed())
        for data in (chance.randbytes(5000), b"GET /" + b"a" * 100000, b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", self.fleet.http_port), timeout=1) as connection:
                try:
                    connection.sendall(data)
                    while connection.recv(65536):
                        pass
                except OSError:
                    pass

    def test_each_wrong_record_is_refused_with_its_reason_and_counted(self):
        before = self.rejected()
        said = self.bad_agent("records", self.some_run())
        reasons = {int(words[1]): words[2].removeprefix("REJECT_REASON_") for words in said if words[0] == "rejected"}
        self.assertEqual(reasons, {
            1: "MALFORMED",    # not a message
            2: "MALFORMED",    # invalid UTF-8
            3: "BAD_NUMBER",   # NaN
            4: "BAD_NUMBER",   # negative
            5: "UNKNOWN_RUN",
            6: "WRONG_NODE",   # the run is another's
            7: "WRONG_NODE",   # speaks for another
            8: "TOO_LARGE",
            9: "BAD_FIELD",    # outcome not set
        })  # fmt: skip
        self.assertEqual([words for words in said if words[0] == "stored"], [])
        e2e_fleet.wait_until(lambda: self.rejected() == before + 9, "the refusals to be counted")

    def status_of(self, case):
        return self.bad_agent(case)[-1]

    def test_oversize_batch_ends_the_stream(self):
        _, code, message = self.status_of("oversize-batch")
        self.assertIn(int(code), (3, 8), message)  # INVALID_ARGUMENT, RESOURCE_EXHAUSTED

    def test_stream_without_hello_is_refused(self):
        _, code, message = self.status_of("no-hello")
        self.assertEqual(int(code), 3, message)
        self.assertIn("hello", message.lower())

    def test_hostname_with_control_characters_is_refused(self):
        _, code, message = self.status_of("bad-hostname")
        self.assertEqual(int(code), 3, message)
        self.assertNotIn("\x1b", message)

    def test_invalid_utf8_in_hello_is_refused(self):
        words = self.status_of("invalid-utf8-hello")
        self.assertNotEqual(int(words[1]), 0)

    def test_clock_an_hour_off_and_unknown_kind_of_probe_are_said_and_disturb_nobody(self):
        command = [str(e2e_fleet.TOOL_DIR / "weft-e2e-bad-agent"), f"127.0.0.1:{self.fleet.grpc_port}", "skewed-clock"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as agent:
            try:
                finding = e2e_fleet.wait_until(self.skew_finding, "a finding about the clock")
                self.assertEqual(finding["hostnames"], ["bad-agent"])
                begun = int(self.cli.status()["rounds"])
                e2e_fleet.wait_until(lambda: int(self.cli.status()["rounds"]) >= begun + 2, "two more rounds")
                self.assertEqual([r for r in self.cli.runs(200) if _has_bad_agent(r)], [])
            finally:
                agent.kill()

    def skew_finding(self):
        return next((f for f in self.cli.findings() if f["kind"] == "FINDING_KIND_CLOCK_SKEW"), None)


class ConfigTest(unittest.TestCase):
    def test_unknown_kind_of_probe_is_refused_with_its_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
            config.write("insecure: true\nprobes:\n  - spec:\n      name: x\n      quantum: {}\n")
            config.flush()
            done = subprocess.run(
                [str(e2e_fleet.BIN_DIR / "weft-server"), "--config", config.name, "--check-config"],
                capture_output=True, text=True, timeout=30, check=False,
            )  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(":5:", done.stderr + done.stdout)
        self.assertIn("quantum", done.stderr + done.stdout)


if __name__ == "__main__":
    unittest.main()
