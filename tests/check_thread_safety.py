#!/usr/bin/env python3
"""Runs Clang's -Wthread-safety over every source that holds a lock, without building anything.

    tests/check_thread_safety.py BUILD_DIR

Reads BUILD_DIR/compile_commands.json. A source counts if it, or the header of its name, includes base/mutex.h.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wthread-safety", "-Werror=thread-safety"]


def holds_locks(source):
    files = [source, source.with_suffix(".h")]
    return any('#include "base/mutex.h"' in f.read_text(encoding="utf-8") for f in files if f.exists())


def include_flags(arguments):
    flags = []
    for i, argument in enumerate(arguments):
        if argument == "-isystem":
            flags += [argument, arguments[i + 1]]
        elif argument.startswith(("-I", "-D")):
            flags.append(argument)
    return flags


def check(entry):
    command = ["clang++", *FLAGS, *include_flags(shlex.split(entry["command"])), entry["file"]]
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)
    return entry["file"], done.returncode, done.stderr


def main():
    build = pathlib.Path(sys.argv[1])
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    entries = [e for e in entries if not e["file"].endswith(("_test.cc", ".pb.cc")) and holds_locks(pathlib.Path(e["file"]))]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, code, errors in pool.map(check, entries):
            if code != 0:
                failed += 1
                print(f"{name}:\n{errors}")
    print(f"{len(entries)} sources with locks checked, {failed} with findings")
    return 1 if failed or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
