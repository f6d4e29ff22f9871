// Empty: nccl.h includes it and, without a CUDA compiler, needs nothing of it.
