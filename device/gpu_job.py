#!/usr/bin/env python3
"""A small job on one GPU: a CUDA context and some memory, for some seconds, through the driver API alone.

    device/gpu_job.py SECONDS [GPU]

Prints the monotonic time at which the driver had the process on the GPU, then holds it.
"""

import ctypes
import sys
import time


def check(code, what):
    if code != 0:
        sys.exit(f"gpu_job: {what} failed with CUDA error {code}")


def main():
    seconds = float(sys.argv[1])
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), int(sys.argv[2]) if len(sys.argv) > 2 else 0), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    print(time.monotonic(), flush=True)
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(256 << 20)), "cuMemAlloc")
    time.sleep(seconds)


if __name__ == "__main__":
    main()
