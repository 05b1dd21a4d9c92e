// Marks small functions that both the CPU's code and CUDA kernels use.
#pragma once

#ifdef __CUDACC__
#define TRAINER_ANYWHERE __host__ __device__ inline
#else
#define TRAINER_ANYWHERE inline
#endif
