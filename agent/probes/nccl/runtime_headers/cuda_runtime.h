// Stands in for the CUDA runtime's header, of which nccl.h needs the name of a stream. A stream of the
// driver's interface is the same thing.
#pragma once

#include <limits.h>
#include <stddef.h>

typedef struct CUstream_st* cudaStream_t;

// Older versions of nccl.h name the type only where the runtime's own header was seen.
#ifndef __CUDA_BF16_TYPES_EXIST__
#define __CUDA_BF16_TYPES_EXIST__
#endif
