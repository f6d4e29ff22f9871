#!/usr/bin/env python3
"""The layer check names what climbs, and nothing else."""

import pathlib
import tempfile
import unittest

import check_layers


class LayersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def problems(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return check_layers.check(self.root)[1]

    def test_including_upward_names_file_and_line(self):
        problems = self.problems("store/store.h", '#include <string>\n#include "server/plan/planner.h"\n')
        self.assertEqual(len(problems), 1)
        self.assertTrue(problems[0].startswith("store/store.h:2:"), problems)

    def test_including_downward_is_fine(self):
        self.assertEqual(self.problems("server/plan/planner.h", '#include "base/clock.h"\n#include "fleet/node.h"\n'), [])

    def test_server_and_agent_do_not_know_each_other(self):
        self.assertEqual(len(self.problems("agent/session/session.h", '#include "server/plan/planner.h"\n')), 1)

    def test_pure_folders_know_no_grpc(self):
        self.assertEqual(len(self.problems("server/detect/detector.h", "#include <grpcpp/grpcpp.h>\n")), 1)

    def test_folder_without_layer_is_named(self):
        self.assertEqual(len(self.problems("server/new_thing/thing.h", "")), 1)


if __name__ == "__main__":
    unittest.main()
