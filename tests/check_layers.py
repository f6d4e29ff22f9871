#!/usr/bin/env python3
"""Checks that includes only go down the layers of the tree, and names the file and line that climbs.

    tests/check_layers.py [ROOT]

A file may include files of its own folder, of the folders listed for it below, and what those may include.
"""

import pathlib
import re
import sys

# Folder -> what it may know directly. The longest matching prefix counts.
MAY_KNOW = {
    "base": [],
    "fleet": ["base"],
    "weft/v1": [],  # generated messages and services
    "convert": ["fleet", "base", "weft/v1"],
    "store": ["fleet", "base"],
    "store/sqlite": ["store", "fleet", "base", "convert", "weft/v1"],
    "server/detect": ["fleet", "base", "convert", "weft/v1"],
    "server/plan": ["store", "server/detect", "fleet", "base"],
    "server/alert": ["store", "server/detect", "fleet", "base", "convert", "weft/v1"],
    "server/ingest": ["store", "server/plan", "server/auth", "convert", "fleet", "base", "weft/v1"],
    "server/auth": ["fleet", "base"],
    "server/api": ["store", "server/detect", "server/alert", "server/plan", "server/ingest", "server/auth", "convert",
                   "fleet", "base", "weft/v1"],
    "server/http": ["server/api"],
    # Both sides hold probe parameters to the same bounds, which live with the runner.
    "server/app": ["server", "store", "convert", "fleet", "base", "weft/v1", "agent/runner"],
    "agent/spool": ["fleet", "base"],
    "agent/inventory": ["fleet", "base"],
    "agent/inventory/gpu": ["base", "weft/v1"],
    "agent/idle": ["agent/inventory", "agent/runner", "convert", "fleet", "base", "weft/v1"],
    "agent/runner": ["convert", "fleet", "base", "weft/v1"],
    "agent/probes/transport": ["fleet", "base"],
    # A tool that runs both ends of a pair does so as the agent would, through the runner.
    "agent/probes": ["agent/runner", "agent/inventory", "convert", "fleet", "base", "weft/v1"],
    "agent/session": ["agent/spool", "agent/inventory", "agent/idle", "agent/runner", "agent/probes/transport", "convert", "fleet", "base", "weft/v1"],
    "agent/app": ["agent", "convert", "fleet", "base", "weft/v1"],
    "cli": ["convert", "fleet", "base", "weft/v1"],
    # Tests and benchmarks may know everything.
    "tests": [""],
    "bench": [""],
}
# "Pure" folders take values and give values: no gRPC, no database, no HTTP.
PURE = ("base", "fleet", "server/detect", "server/plan")
NOT_PURE = re.compile(r"^(grpcpp/|grpc/|sqlite3\.h|boost/beast|curl/)|\.grpc\.pb\.h$")

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')


def folder_of(path):
    """The longest known prefix of a path, or None for what is not ours."""
    parts = path.split("/")
    for end in range(len(parts) - 1, 0, -1):
        prefix = "/".join(parts[:end])
        if prefix in MAY_KNOW:
            return prefix
    return None


def allowed(folder, target, seen=()):
    """Whether `folder` may know `target`, directly or through what it may know."""
    if folder in seen:
        return False
    for known in [folder, *MAY_KNOW[folder]]:
        if known == "" or target == known or target.startswith(known + "/"):
            return True
    return any(k in MAY_KNOW and allowed(k, target, (*seen, folder)) for k in MAY_KNOW[folder])


def is_test(path):
    return (path.stem.endswith(("_test", "_bench", "_fuzz")) or path.stem.startswith(("test_", "simulated_"))
            or "conformance" in path.stem or path.stem == "testing")


def check_file(root, path):
    name = path.relative_to(root).as_posix()
    folder = folder_of(name)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match or is_test(path):
            continue
        target = folder_of(match[1])
        if target is not None and not allowed(folder, target):
            yield f"{name}:{number}: {folder}/ must not know {target}/ ({match[1]})"
        if folder in PURE and NOT_PURE.search(match[1]):
            yield f"{name}:{number}: {folder}/ is pure and must not know {match[1]}"


def check(root):
    tops = sorted({folder.split("/")[0] for folder in MAY_KNOW} - {"weft"})
    files = [f for top in tops for f in sorted((root / top).rglob("*")) if f.suffix in (".h", ".cc")]
    unplaced = [f for f in files if folder_of(f.relative_to(root).as_posix()) is None]
    problems = [f"{f.relative_to(root)}: no layer is named for its folder" for f in unplaced]
    for path in files:
        if path not in unplaced:
            problems += check_file(root, path)
    return len(files), problems


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    count, problems = check(root)
    print("\n".join(problems) if problems else f"{count} files keep to their layers")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main())
