#!/usr/bin/env python3
"""Prints what weft-gpu-inventory sees on this machine, as JSON, and how long that took.

    device/gpu_facts.py [--bin DIR] [--lib DIR] [--seconds N]

Ends with 0 when the driver answered, 1 when it did not. `--lib` is a folder with libraries that the program was built
with and that this machine lacks. Nothing needs root.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time


def read_facts(program, library_folder, seconds):
    """The program's answer, or why there is none, under "problem"."""
    environment = dict(os.environ)
    if library_folder:
        environment["LD_LIBRARY_PATH"] = f"{library_folder}:{environment.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    try:
        done = subprocess.run([program, "--json"], env=environment, capture_output=True, timeout=seconds, check=False)
    except OSError as error:
        return {"problem": f"{program} cannot be run: {error}"}
    except subprocess.TimeoutExpired:
        return {"problem": f"the driver did not answer within {seconds} s"}
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        return {"problem": f"{program} ended with {done.returncode}: {said[-2000:]}"}
    problem = answer["report"].get("problem")
    return {"problem": problem, **answer} if problem else answer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(pathlib.Path(__file__).parent.parent / "build/dev/bin"),
                        help="folder of weft-gpu-inventory")
    parser.add_argument("--lib", default="", help="folder of further libraries")
    parser.add_argument("--seconds", type=float, default=60, help="how long the driver may take")
    options = parser.parse_args()
    start = time.monotonic()
    facts = read_facts(os.path.join(options.bin, "weft-gpu-inventory"), options.lib, options.seconds)
    facts["elapsed_seconds"] = round(time.monotonic() - start, 3)
    json.dump(facts, sys.stdout, indent=2)
    print()
    return 1 if "problem" in facts else 0


if __name__ == "__main__":
    sys.exit(main())
