"""Bad options are refused before anything is touched; chance follows the seed."""

import contextlib
import io
import unittest

from demo import options


def parse(*arguments):
    return options.parse(list(arguments))[0]


class OptionsTest(unittest.TestCase):
    def refused(self, *arguments):
        with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()) as said:
            parse(*arguments)
        self.assertEqual(ended.exception.code, 2)
        return said.getvalue()

    def test_same_seed_same_faults(self):
        self.assertEqual(parse("--seed", "7"), parse("--seed", "7"))

    def test_any_seed_slows_and_mutes_different_nodes_within_bounds(self):
        for seed in range(200):
            chosen = parse("--seed", str(seed), "--nodes", "4")
            self.assertNotEqual(chosen.slow.index, chosen.mute.index)
            for fault in (chosen.slow, chosen.mute):
                self.assertIn(fault.index, range(4))
                self.assertTrue(options.MIN_RATIO <= fault.ratio <= options.MAX_RATIO)

    def test_given_fault_is_kept_and_the_other_avoids_it(self):
        for seed in range(50):
            chosen = parse("--seed", str(seed), "--nodes", "4", "--mute", "3=0.5")
            self.assertEqual(chosen.mute, options.Fault(3, 0.5))
            self.assertNotEqual(chosen.slow.index, 3)

    def test_facts_may_go_into_a_folder_that_is_made_later(self):
        for path in ("", "-", "facts.json", "build/that/is/not/there/facts.json"):
            self.assertEqual(parse("--json", path).json, path)

    def test_refusals_say_why(self):
        self.assertIn("4 to 32", self.refused("--nodes", "3"))
        self.assertIn("outside 0.3 to 0.8", self.refused("--slow", "1=0.9"))
        self.assertIn("outside 0.3 to 0.8", self.refused("--slow", "1=nan"))
        self.assertIn("INDEX=RATIO", self.refused("--slow", "half"))
        self.assertIn("there is no node 8", self.refused("--slow", "8=0.5"))
        self.assertIn("same node", self.refused("--slow", "1=0.5", "--mute", "1=0.5"))
        self.assertIn("cannot write", self.refused("--json", "/dev/null/facts.json"))
        self.assertIn("cannot write", self.refused("--json", "/"))
        self.assertIn("unrecognized", self.refused("--nonsense"))


if __name__ == "__main__":
    unittest.main()
