// Compiled without fused multiply-add: every result equals the CPU's to the bit.
#include "data/gpu/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "data/images/colour_math.h"
#include "data/images/filter.h"

namespace trainer::data::kernels {
namespace {

constexpr int kThreads = 256;

int blocks_for(long long items) { return static_cast<int>((items + kThreads - 1) / kThreads); }

const char* launched() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// --- orientation and channels --------------------------------------------------------------------
struct Position {
  int y, x;
};

// Where the pixel (y, x) of the upright picture is stored.
__device__ Position stored(const Picture& picture, int y, int x) {
  const int bottom = picture.height - 1;
  const int right = picture.width - 1;
  switch (picture.orientation) {
    case 2: return {y, right - x};
    case 3: return {bottom - y, right - x};
    case 4: return {bottom - y, x};
    case 5: return {x, y};
    case 6: return {bottom - x, y};
    case 7: return {bottom - x, right - y};
    case 8: return {x, right - y};
    default: return {y, x};
  }
}

template <int channels>
__global__ void turn(const Picture* pictures) {
  const Picture& picture = pictures[blockIdx.y];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (!picture.turned || i >= picture.region_height * picture.region_width) return;
  const Position at = stored(picture, picture.region_top + i / picture.region_width,
                             picture.region_left + i % picture.region_width);
  const std::uint8_t* rgb =
      picture.pixels + 3 * (static_cast<size_t>(at.y) * picture.width + at.x);
  std::uint8_t* to = picture.region + static_cast<size_t>(i) * channels;
  if (channels == 1) {
    to[0] = colour::luma(rgb);
  } else {
    for (int channel = 0; channel < 3; ++channel) to[channel] = rgb[channel];
  }
}

// --- resize --------------------------------------------------------------------------------------
__device__ filter::Axis down(const Picture& picture) {
  return filter::make_axis(picture.box_top, picture.box_height, picture.grid_height,
                           {picture.window_top, picture.window_height}, picture.bicubic != 0);
}
__device__ filter::Axis across(const Picture& picture) {
  return filter::make_axis(picture.box_left, picture.box_width, picture.grid_width,
                           {picture.window_left, picture.window_width}, picture.bicubic != 0);
}

// The taps of the window's i-th position; input positions count from `begin` in the picture.
__device__ void make_taps(const filter::Axis& axis, int i, bool mirror, int begin,
                          std::int32_t* to) {
  const double centre = filter::centre_of(axis, filter::position_of(axis, i, mirror));
  const filter::Interval inputs = filter::under_filter(axis, centre);
  double sum = 0.0;
  for (int k = 0; k < inputs.count; ++k) sum += filter::weight_of(axis, centre, k + inputs.first);
  to[0] = inputs.first + axis.origin - begin;
  to[1] = inputs.count;
  for (int k = 0; k < inputs.count; ++k)
    to[2 + k] = filter::fixed_point(filter::weight_of(axis, centre, k + inputs.first), sum);
}

__global__ void make_all_taps(const Picture* pictures) {
  const Picture& picture = pictures[blockIdx.y];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (blockIdx.z == 0) {
    if (i >= picture.window_height) return;
    make_taps(down(picture), i, false, picture.region_top,
              picture.rows + static_cast<size_t>(i) * (2 + picture.row_taps));
  } else {
    if (i >= picture.window_width) return;
    make_taps(across(picture), i, picture.mirror != 0, picture.region_left,
              picture.columns + static_cast<size_t>(i) * (2 + picture.column_taps));
  }
}

template <int channels>
__device__ void convolve(const std::uint8_t* from, size_t step, const std::int32_t* taps,
                         std::uint8_t* to) {
  std::int32_t sums[channels];
  for (int channel = 0; channel < channels; ++channel) sums[channel] = 1 << (filter::kWeightBits - 1);
  const int count = taps[1];
  from += taps[0] * step;
  for (int k = 0; k < count; ++k, from += step) {
    const std::int32_t weight = taps[2 + k];
    for (int channel = 0; channel < channels; ++channel) sums[channel] += from[channel] * weight;
  }
  for (int channel = 0; channel < channels; ++channel)
    to[channel] = filter::round_off(sums[channel]);
}

// Pixel (y, x) after a pass across, or down, over rows that are `stride` bytes apart.
template <int channels>
__device__ void pass_across(const Picture& picture, const std::uint8_t* from, int stride, int y,
                            int x, std::uint8_t* to) {
  convolve<channels>(from + static_cast<size_t>(y) * stride, channels,
                     picture.columns + static_cast<size_t>(x) * (2 + picture.column_taps), to);
}
template <int channels>
__device__ void pass_down(const Picture& picture, const std::uint8_t* from, int stride, int y,
                          int x, std::uint8_t* to) {
  convolve<channels>(from + static_cast<size_t>(x) * channels, static_cast<size_t>(stride),
                     picture.rows + static_cast<size_t>(y) * (2 + picture.row_taps), to);
}

template <int channels>
__global__ void resize_first(const Picture* pictures) {
  const Picture& picture = pictures[blockIdx.y];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const int height = picture.columns_first ? picture.window_height : picture.region_height;
  const int width = picture.columns_first ? picture.region_width : picture.window_width;
  if (i >= height * width) return;
  std::uint8_t* to = picture.between + static_cast<size_t>(i) * channels;
  if (picture.columns_first)
    pass_down<channels>(picture, picture.region, picture.region_stride, i / width, i % width, to);
  else
    pass_across<channels>(picture, picture.region, picture.region_stride, i / width, i % width, to);
}

template <int channels>
__global__ void resize_second(const Picture* pictures, int height, int width) {
  const Picture& picture = pictures[blockIdx.y];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= height * width) return;
  std::uint8_t* to = picture.image + static_cast<size_t>(i) * channels;
  const int y = i / width - picture.top;
  const int x = i % width - picture.left;
  if (y < 0 || y >= picture.window_height || x < 0 || x >= picture.window_width) {
    for (int channel = 0; channel < channels; ++channel) to[channel] = 0;
  } else if (picture.columns_first) {
    pass_across<channels>(picture, picture.between, picture.region_width * channels, y, x, to);
  } else {
    pass_down<channels>(picture, picture.between, picture.window_width * channels, y, x, to);
  }
}

// --- colours -------------------------------------------------------------------------------------
// The sum of a value over the block, for every thread.
__device__ long long block_sum(long long value) {
  __shared__ long long sums[kThreads];
  __syncthreads();
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  return sums[0];
}

// One block an image: contrast needs the mean of all of it.
template <int channels>
__global__ void change_colours(const Picture* pictures, int pixels) {
  const Picture& picture = pictures[blockIdx.x];
  for (int step = 0; step < 4; ++step) {
    const int which = picture.order[step];
    if (which < 0 || (channels == 1 && which >= 2)) continue;
    const double factor = picture.factors[which];
    int grey = 0;
    if (which == 1) {
      long long sum = 0;
      for (int i = threadIdx.x; i < pixels; i += kThreads) {
        const std::uint8_t* pixel = picture.image + static_cast<size_t>(i) * channels;
        sum += channels == 1 ? pixel[0] : colour::luma(pixel);
      }
      grey = colour::mean_grey(block_sum(sum), static_cast<double>(pixels));
    }
    for (int i = threadIdx.x; i < pixels; i += kThreads) {
      std::uint8_t* pixel = picture.image + static_cast<size_t>(i) * channels;
      if (which <= 1) {
        for (int channel = 0; channel < channels; ++channel)
          pixel[channel] = colour::blend(grey, pixel[channel], static_cast<float>(factor));
      } else if (which == 2) {
        colour::saturate(pixel, static_cast<float>(factor));
      } else {
        colour::turn_hue(pixel, colour::hue_shift(factor));
      }
    }
    __syncthreads();
  }
}

template <int channels>
const char* build_with(const Picture* pictures, int count, const Largest& largest, int height,
                       int width, cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(count);
  const auto grid = [rows](int items) { return dim3(blocks_for(items), rows); };
  if (largest.turned_pixels > 0)
    turn<channels><<<grid(largest.turned_pixels), kThreads, 0, stream>>>(pictures);
  make_all_taps<<<dim3(blocks_for(largest.taps), rows, 2), kThreads, 0, stream>>>(pictures);
  resize_first<channels><<<grid(largest.between_pixels), kThreads, 0, stream>>>(pictures);
  resize_second<channels><<<grid(height * width), kThreads, 0, stream>>>(pictures, height, width);
  if (largest.jitter)
    change_colours<channels><<<count, kThreads, 0, stream>>>(pictures, height * width);
  return launched();
}

// --- model input ---------------------------------------------------------------------------------
template <class T>
__device__ T cast(float value);
template <>
__device__ float cast(float value) { return value; }
template <>
__device__ __nv_bfloat16 cast(float value) { return __float2bfloat16_rn(value); }
template <>
__device__ __half cast(float value) { return __float2half_rn(value); }

template <class T>
__global__ void prepare_pixels(const Prepare task) {
  const int pixels = task.height * task.width;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= (task.end - task.begin) * pixels) return;
  const std::int64_t row = i / pixels;
  const int pixel = static_cast<int>(i % pixels);
  T* to = static_cast<T*>(task.input);
  for (int channel = 0; channel < task.channels; ++channel) {
    const float value = internal::mixed_value(task, task.begin + row, pixel, pixel / task.width,
                                              pixel % task.width, channel);
    to[task.channels_last ? i * task.channels + channel
                          : (row * task.channels + channel) * pixels + pixel] = cast<T>(value);
  }
}

}  // namespace

const char* build(const Picture* pictures, int count, const Largest& largest, int height, int width,
                  int channels, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return channels == 1 ? build_with<1>(pictures, count, largest, height, width, on)
                       : build_with<3>(pictures, count, largest, height, width, on);
}

const char* prepare(const Prepare& task, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const int blocks =
      blocks_for((task.end - task.begin) * task.height * static_cast<long long>(task.width));
  switch (task.type) {
    case InputType::float32:
      prepare_pixels<float><<<blocks, kThreads, 0, on>>>(task);
      break;
    case InputType::bfloat16:
      prepare_pixels<__nv_bfloat16><<<blocks, kThreads, 0, on>>>(task);
      break;
    case InputType::float16:
      prepare_pixels<__half><<<blocks, kThreads, 0, on>>>(task);
      break;
  }
  return launched();
}

}  // namespace trainer::data::kernels
