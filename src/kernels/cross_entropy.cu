// One block a row, in two passes: the first finds the row's largest logit and the sum of the
// others' exponentials relative to it (online softmax, Milakov & Gimelshein 2018), the second
// replaces the logits by the gradient. A block's row is at most some hundred kilobytes, so that the
// second pass reads it from the L2 cache; long blocks, of which two fill a multiprocessor, keep few
// rows there.
#include "kernels/cross_entropy_launch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

namespace trainer::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;
// Blocks of that size on a multiprocessor: two on those that hold 2048 threads.
#if defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
constexpr int kBlocksTogether = 2;
#else
constexpr int kBlocksTogether = 1;
#endif
constexpr unsigned kAllLanes = 0xffffffffU;
constexpr float kLog2e = 1.44269504088896341F;
// Below every logit. Finite, so that the difference of two of them is 0 and not NaN.
constexpr float kLowest = -1e30F;

// 2^x with a relative error of 2^-22; 0 where the result would not be a normal number.
__device__ float exp2_approximate(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
// e^(x - top). The difference is taken first: large logits lose nothing.
__device__ float exp_below(float x, float top) { return exp2_approximate((x - top) * kLog2e); }

// --- 16 bytes of a row ---------------------------------------------------------------------------
template <class T>
struct alignas(16) Pack {
  static constexpr int size = 16 / sizeof(T);
  T values[size];
};

__device__ float widen(float value) { return value; }
__device__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float widen(__half value) { return __half2float(value); }

__device__ void narrow(float value, float* to) { *to = value; }
__device__ void narrow(float value, __nv_bfloat16* to) { *to = __float2bfloat16_rn(value); }
__device__ void narrow(float value, __half* to) { *to = __float2half_rn(value); }

template <class T>
__device__ void load(const Pack<T>* from, float (&to)[Pack<T>::size]) {
  const Pack<T> pack = *from;
#pragma unroll
  for (int k = 0; k < Pack<T>::size; ++k) to[k] = widen(pack.values[k]);
}

__device__ void store(const float (&from)[4], Pack<float>* to) {
  *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
}
// Two values in one conversion.
__device__ void store(const float (&from)[8], Pack<__nv_bfloat16>* to) {
  alignas(16) __nv_bfloat162 pairs[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) pairs[k] = __floats2bfloat162_rn(from[2 * k], from[2 * k + 1]);
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(pairs);
}
__device__ void store(const float (&from)[8], Pack<__half>* to) {
  alignas(16) __half2 pairs[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) pairs[k] = __floats2half2_rn(from[2 * k], from[2 * k + 1]);
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(pairs);
}

// A row: `head` single values up to the first 16-byte boundary, whole packs, and single values.
template <class T>
struct Row {
  T* values;
  int columns;
  int head;
  int packs;
  Pack<T>* packed;
  int tail;  // index of the first value after the packs

  __device__ Row(T* begin, int count) : values(begin), columns(count) {
    const auto past = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(begin) % 16);
    head = min(static_cast<int>((16 - past) % 16 / sizeof(T)), columns);
    packs = (columns - head) / Pack<T>::size;
    packed = reinterpret_cast<Pack<T>*>(begin + head);
    tail = head + packs * Pack<T>::size;
  }
};

// Calls one(T*) or many(Pack<T>*) for all values of the row, shared among the block's threads.
template <class T, class One, class Many>
__device__ void for_all(const Row<T>& row, const One& one, const Many& many) {
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  if (thread < row.head) one(row.values + thread);
  for (int i = thread; i < row.packs; i += threads) many(row.packed + i);
  if (thread < row.columns - row.tail) one(row.values + row.tail + thread);
}

// --- first pass ----------------------------------------------------------------------------------
struct Sums {
  float top = kLowest;  // the largest value
  float exps = 0;       // sum of e^(value - top)
  float plain = 0;      // sum of the values
};

__device__ Sums merge(const Sums& a, const Sums& b) {
  Sums both;
  both.top = fmaxf(a.top, b.top);
  both.exps = a.exps * exp_below(a.top, both.top) + b.exps * exp_below(b.top, both.top);
  both.plain = a.plain + b.plain;
  return both;
}

template <int count>
__device__ void add(const float (&values)[count], Sums& sums) {
  float top = sums.top;
#pragma unroll
  for (int k = 0; k < count; ++k) top = fmaxf(top, values[k]);
  float exps = sums.exps * exp_below(sums.top, top);
#pragma unroll
  for (int k = 0; k < count; ++k) {
    exps += exp_below(values[k], top);
    sums.plain += values[k];
  }
  sums.top = top;
  sums.exps = exps;
}

__device__ Sums sum_of_warp(Sums sums) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    Sums other;
    other.top = __shfl_xor_sync(kAllLanes, sums.top, distance);
    other.exps = __shfl_xor_sync(kAllLanes, sums.exps, distance);
    other.plain = __shfl_xor_sync(kAllLanes, sums.plain, distance);
    sums = merge(sums, other);
  }
  return sums;
}

// For every thread, and in an order that does not change from run to run.
__device__ Sums sum_of_block(Sums sums) {
  __shared__ float tops[kWarp], exps[kWarp], plains[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  sums = sum_of_warp(sums);
  if (lane == 0) {
    tops[warp] = sums.top;
    exps[warp] = sums.exps;
    plains[warp] = sums.plain;
  }
  __syncthreads();
  Sums of_warp;
  if (lane < static_cast<int>(blockDim.x) / kWarp) {
    of_warp.top = tops[lane];
    of_warp.exps = exps[lane];
    of_warp.plain = plains[lane];
  }
  return sum_of_warp(of_warp);
}

template <class T>
__device__ Sums read(const Row<T>& row) {
  Sums sums;
  for_all(
      row,
      [&sums](const T* value) {
        const float single[1] = {widen(*value)};
        add(single, sums);
      },
      [&sums](const Pack<T>* pack) {
        float values[Pack<T>::size];
        load(pack, values);
        add(values, sums);
      });
  return sum_of_block(sums);
}

// --- second pass ---------------------------------------------------------------------------------
// gradient[j] = e^(x[j] - top) * scale - share
template <class T>
__device__ void write(const Row<T>& row, float top, float scale, float share) {
  const auto gradient = [=](float value) { return exp_below(value, top) * scale - share; };
  for_all(
      row, [&gradient](T* value) { narrow(gradient(widen(*value)), value); },
      [&gradient](Pack<T>* pack) {
        float values[Pack<T>::size];
        load(pack, values);
#pragma unroll
        for (int k = 0; k < Pack<T>::size; ++k) values[k] = gradient(values[k]);
        store(values, pack);
      });
}

template <class T>
__device__ void clear(const Row<T>& row) {
  for_all(
      row, [](T* value) { narrow(0.0F, value); },
      [](Pack<T>* pack) {
        const float zeros[Pack<T>::size] = {};
        store(zeros, pack);
      });
}

// Whether `top` also stands before the target. Read again only where the target's logit is as large
// as any, which spares the first pass all indices.
template <class T>
__device__ bool stands_before(const Row<T>& row, int target, float top) {
  int found = 0;
  for (int j = static_cast<int>(threadIdx.x); j < target; j += static_cast<int>(blockDim.x))
    found |= widen(row.values[j]) == top;
  return __syncthreads_or(found) != 0;
}

template <class T>
__global__ void __launch_bounds__(kMostThreads, kBlocksTogether)
    cross_entropy_rows(CrossEntropyLaunch task) {
  const auto index = static_cast<std::int64_t>(blockIdx.x);
  const Row<T> row(static_cast<T*>(task.logits) + index * task.stride, task.columns);
  const std::int64_t target = task.targets[index];
  const bool first = threadIdx.x == 0;
  if (target == task.ignored) {
    if (first) task.losses[index] = 0;
    if (first && task.hits != nullptr) task.hits[index] = 0;
    if (task.gradient) clear(row);
    return;
  }
  const bool known = target >= 0 && target < task.columns;
  const float of_target = known ? widen(row.values[target]) : nanf("");
  const Sums sums = read(row);
  const float lse = sums.top + logf(sums.exps);
  const float rest = 1 - task.label_smoothing;
  if (first) {
    float loss = rest * (lse - of_target);
    if (task.label_smoothing != 0)
      loss += task.label_smoothing * (lse - sums.plain / static_cast<float>(task.columns));
    task.losses[index] = loss + task.z_loss * lse * lse;
  }
  if (task.hits != nullptr) {
    // A NaN anywhere has made the sum one.
    bool hit = of_target == sums.top && sums.exps == sums.exps;
    if (hit) hit = !stands_before(row, static_cast<int>(target), sums.top);
    if (first) task.hits[index] = hit ? 1.0F : 0.0F;
  }
  if (!task.gradient) return;

  const float factor = task.factors == nullptr ? 1.0F : task.factors[index];
  const float scale = known ? factor * (1 + 2 * task.z_loss * lse) / sums.exps : nanf("");
  const float share = factor * task.label_smoothing / static_cast<float>(task.columns);
  write(row, sums.top, scale, share);
  __syncthreads();
  if (first && known)
    narrow(exp_below(of_target, sums.top) * scale - share - factor * rest, row.values + target);
}

// A few packs for each thread of a long row; one warp for a short one.
template <class T>
void start(const CrossEntropyLaunch& task, cudaStream_t stream) {
  constexpr int kPacksEach = 4;
  int threads = kWarp;
  while (threads < kMostThreads && threads * kPacksEach * Pack<T>::size < task.columns)
    threads *= 2;
  cross_entropy_rows<T><<<static_cast<unsigned>(task.rows), threads, 0, stream>>>(task);
}

}  // namespace

const char* launch(const CrossEntropyLaunch& task, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  switch (task.type) {
    case LogitsType::float32:
      start<float>(task, on);
      break;
    case LogitsType::bfloat16:
      start<__nv_bfloat16>(task, on);
      break;
    case LogitsType::float16:
      start<__half>(task, on);
      break;
  }
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace trainer::kernels
