"""kill -9 of the server and of an agent in mid-run: every result that was spooled is stored, exactly once."""

import random
import unittest

import e2e_fleet
from demo import fleet as fleets


class CrashTest(e2e_fleet.FleetTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(e2e_fleet.random_seed())

    def in_mid_run(self):
        """Waits for a run under way."""
        e2e_fleet.wait_until(
            lambda: any(run["state"] == "RUN_STATE_ACTIVE" for run in self.cli.runs(20)), "a run under way"
        )

    def assert_stored_once(self, records):
        """Each (epoch, sequence, run, rank) of `records` becomes exactly one result."""
        e2e_fleet.wait_until(lambda: all(self.stored(r) for r in records), f"{len(records)} spooled records", 60)
        for _, _, run, rank in records:
            rows = self.query(
                "SELECT count(*) FROM result JOIN run USING (run_key) WHERE run_id = ? AND rank = ?", run, rank
            )
            self.assertEqual(rows, [(1,)], (run, rank))

    def stored(self, record):
        epoch, sequence, _, _ = record
        return self.query(
            "SELECT 1 FROM stored_range WHERE epoch = ? AND ? BETWEEN first_sequence AND last_sequence", epoch, sequence
        )

    def assert_nothing_doubled_or_lost(self):
        doubled = self.query("SELECT run_key, rank FROM result GROUP BY run_key, rank HAVING count(*) > 1")
        self.assertEqual(doubled, [])
        # Each stored sequence is one result, and nothing else is.
        (sequences,) = self.query("SELECT sum(last_sequence - first_sequence + 1) FROM stored_range")[0]
        (results,) = self.query("SELECT count(*) FROM result")[0]
        self.assertEqual(sequences, results)
        status = self.cli.status()
        self.assertEqual(int(status["records_lost"]), 0)
        self.assertEqual(int(status["records_rejected"]), 0)

    def assert_nobody_blamed(self):
        blamed = [f"{', '.join(f['hostnames'])}: {f['summary']}" for f in self.cli.findings()]
        self.assertEqual(blamed, [], "\n".join(self.runs_gone_wrong()))

    def runs_gone_wrong(self):
        """A line for each, to tell what a false finding was made of."""
        for run in self.cli.runs():
            if run["state"] not in ("RUN_STATE_OK", "RUN_STATE_ACTIVE"):
                ends = [(p["hostname"], (p.get("result") or {}).get("outcome"), (p.get("result") or {}).get("detail"))
                        for p in run["participants"]]  # fmt: skip
                yield f"{run['plan_time']} {run['state']} {run['detail']} {ends}"

    def test_server_killed_in_mid_run_loses_and_doubles_nothing(self):
        self.wait_rounds(self.fleet.tuning.baseline_runs + 1)
        spooled = []
        for _ in range(2):
            self.in_mid_run()
            self.fleet.kill("server")
            # Agents finish what they run; with no server it all stays in their spools.
            spooled += e2e_fleet.wait_until(self.all_spooled, "results in the spools of a fleet without server")
            self.fleet.start_server()
            self.wait_for_answer()
            self.wait_rounds(self.random.randint(1, 2))
        self.assert_stored_once(spooled)
        self.wait_rounds(2)
        self.assert_nobody_blamed()
        self.settle()
        self.assert_nothing_doubled_or_lost()

    def test_agent_killed_in_mid_run_loses_and_doubles_nothing(self):
        self.wait_rounds(self.fleet.tuning.baseline_runs + 1)
        spooled = []
        for _ in range(3):
            index = self.random.randrange(self.NODES)
            self.in_mid_run()
            self.fleet.kill(fleets.node_name(index))
            spooled += self.spooled(fleets.node_name(index))
            self.fleet.start_agent(index)
            self.wait_for_answer()
            self.wait_rounds(1)
        self.assert_stored_once(spooled)
        self.wait_rounds(2)
        self.assert_nobody_blamed()
        self.settle()
        self.assert_nothing_doubled_or_lost()

    def all_spooled(self):
        return [record for index in range(self.NODES) for record in self.spooled(fleets.node_name(index))]

    def settle(self):
        """Agents end in peace, so that no run is under way while results are counted."""
        for index in range(self.NODES):
            self.fleet.stop(fleets.node_name(index))
        left = self.all_spooled()
        self.assertTrue(all(self.stored(r) for r in left) or self.send_rest(left))

    def send_rest(self, left):
        for index in range(self.NODES):
            self.fleet.start_agent(index)
        self.assert_stored_once(left)
        return True


if __name__ == "__main__":
    unittest.main()
