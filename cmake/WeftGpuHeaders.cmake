# cuda.h and nccl.h, from deploy/install_gpu_headers.sh or a toolkit. Headers only: the libraries are loaded at
# run time. WEFT_GPU_HEADERS says whether they were found; WEFT_CUDA_INCLUDE_DIR and WEFT_NCCL_INCLUDE_DIR may be
# set by hand.
set(_weft_gpu_hints ${CMAKE_SOURCE_DIR}/build/gpu-headers ENV CUDA_HOME ENV CUDA_PATH ENV NCCL_HOME /usr/local/cuda)
find_path(WEFT_CUDA_INCLUDE_DIR cuda.h HINTS ${_weft_gpu_hints} PATH_SUFFIXES include)
find_path(WEFT_NCCL_INCLUDE_DIR nccl.h HINTS ${_weft_gpu_hints} PATH_SUFFIXES include)

if(WEFT_CUDA_INCLUDE_DIR AND WEFT_NCCL_INCLUDE_DIR)
  set(WEFT_GPU_HEADERS TRUE)
  add_library(Weft::CudaHeaders INTERFACE IMPORTED)
  set_target_properties(Weft::CudaHeaders PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${WEFT_CUDA_INCLUDE_DIR})
  # nccl.h includes the CUDA runtime's headers for the name of a stream and no more; a stand-in has that.
  add_library(Weft::NcclHeaders INTERFACE IMPORTED)
  set_target_properties(Weft::NcclHeaders PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
    "${CMAKE_SOURCE_DIR}/agent/probes/nccl/runtime_headers;${WEFT_NCCL_INCLUDE_DIR}")
else()
  set(WEFT_GPU_HEADERS FALSE)
  message(STATUS "cuda.h or nccl.h not found: weft-probe-nccl and weft-probe-gpu-copy are left out. "
                 "deploy/install_gpu_headers.sh fetches them.")
endif()
