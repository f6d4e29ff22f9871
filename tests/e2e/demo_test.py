"""The demo comes out as it must, with faults chosen by a random seed, and leaves nothing behind."""

import glob
import json
import os
import subprocess
import tempfile
import unittest

import e2e_fleet


def run_demo(*arguments, **popen):
    environment = dict(os.environ, WEFT_BIN_DIR=str(e2e_fleet.BIN_DIR))
    command = [str(e2e_fleet.SOURCE_DIR / "deploy/demo.sh"), *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen)


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weft-e2e-demo-")
        self.addCleanup(self.folder.cleanup)
        # The demo's scratch folders all go here, so that leftovers show.
        os.environ["TMPDIR"] = self.folder.name
        self.addCleanup(os.environ.pop, "TMPDIR")

    def left_behind(self):
        return glob.glob(self.folder.name + "/weft-demo-*")

    def test_all_expectations_hold_for_a_random_seed(self):
        file = self.folder.name + "/out.json"
        with run_demo("--seed", str(e2e_fleet.random_seed()), "--json", file) as demo:
            _, errors = demo.communicate(timeout=280)
        self.assertEqual(demo.returncode, 0, errors)
        with open(file, encoding="utf-8") as text:
            facts = json.load(text)
        print(json.dumps(facts))
        shaped = facts["slow"]["link_after_bytes_per_second"] / facts["slow"]["link_before_bytes_per_second"]
        self.assertEqual(facts["slow"]["finding"]["subject"], facts["slow"]["node"])
        self.assertAlmostEqual(facts["slow"]["finding"]["ratio"], shaped, delta=0.1)
        self.assertLessEqual(facts["slow"]["detected_after_rounds"], 4)
        self.assertEqual(facts["false_findings"], 0)
        self.assertEqual(facts["results_lost"], 0)
        self.assertEqual(facts["mute"]["webhooks_sent"], 0)
        self.assertEqual(len(facts["webhooks"]), 2)
        self.assertTrue(all(hook["signature_valid"] for hook in facts["webhooks"]))
        self.assertEqual(self.left_behind(), [])

    def test_interrupted_demo_leaves_nothing_behind(self):
        with run_demo("--nodes", "4", "--seed", "1") as demo:
            e2e_fleet.wait_until(self.left_behind, "the demo to begin setting up")
            demo.terminate()
            demo.communicate(timeout=30)
        self.assertEqual(demo.returncode, 143)
        self.assertEqual(self.left_behind(), [])
        self.assertEqual(self.processes_of(self.folder.name), [])

    @staticmethod
    def processes_of(folder):
        """Command lines that name the folder, apart from this test's own."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as file:
                    line = file.read().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if folder in line:
                found.append(line)
        return found


if __name__ == "__main__":
    unittest.main()
