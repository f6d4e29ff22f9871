#!/usr/bin/env python3
"""Bandwidth of copies as PyTorch makes them, bytes per second: device to device, host to device and back.

    device/torch_copy.py BYTES
"""

import json
import sys

import torch


def rate(target, source, nbytes, iterations=20):
    for _ in range(3):
        target.copy_(source, non_blocking=True)
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(iterations):
        target.copy_(source, non_blocking=True)
    end.record()
    torch.cuda.synchronize()
    return nbytes * iterations / (begin.elapsed_time(end) / 1000)


def main():
    nbytes = int(sys.argv[1])
    device = [torch.empty(nbytes, dtype=torch.uint8, device="cuda") for _ in range(2)]
    host = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
    json.dump({"device_to_device": rate(device[0], device[1], nbytes), "host_to_device": rate(device[0], host, nbytes),
               "device_to_host": rate(host, device[0], nbytes)}, sys.stdout)


if __name__ == "__main__":
    main()
