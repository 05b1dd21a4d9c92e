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

// --- JPEG planes to pixels -----------------------------------------------------------------------
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

// One plane of chroma.
struct Chroma {
  const std::uint8_t* plane;
  int height, width;
  __device__ int at(int y, int x) const {
    y = min(max(y, 0), height - 1);
    return plane[static_cast<size_t>(y) * width + x];
  }
};

// libjpeg's triangle filter for chroma at half resolution ("fancy upsampling": the nearer sample
// counts three quarters), with its roundings; what is narrower than three samples is repeated.
__device__ int upsampled(const Chroma& chroma, int across, int down, int y, int x) {
  const int row = down == 2 ? y >> 1 : y;
  const int column = across == 2 ? x >> 1 : x;
  if (across == 1 && down == 1) return chroma.at(row, column);
  if (across == 2 && chroma.width <= 2) return chroma.at(row, column);
  const int other_row = (y & 1) ? row + 1 : row - 1;
  if (across == 1)
    return (3 * chroma.at(row, column) + chroma.at(other_row, column) + ((y & 1) ? 2 : 1)) >> 2;
  const bool odd = (x & 1) != 0;
  const bool at_edge = odd ? column == chroma.width - 1 : column == 0;
  const int other = odd ? column + 1 : column - 1;
  if (down == 1) {
    if (at_edge) return chroma.at(row, column);
    return (3 * chroma.at(row, column) + chroma.at(row, other) + (odd ? 2 : 1)) >> 2;
  }
  const int here = 3 * chroma.at(row, column) + chroma.at(other_row, column);
  const int bias = odd ? 7 : 8;
  if (at_edge) return (4 * here + bias) >> 4;
  return (3 * here + 3 * chroma.at(row, other) + chroma.at(other_row, other) + bias) >> 4;
}

// JFIF's YCbCr to RGB in 16-bit fixed point, as libjpeg rounds it.
__device__ void to_rgb(int luma, int blue, int red, std::uint8_t* rgb) {
  blue -= 128;
  red -= 128;
  rgb[0] = colour::clamp_byte(luma + ((91881 * red + 32768) >> 16));
  rgb[1] = colour::clamp_byte(luma + ((-22554 * blue - 46802 * red + 32768) >> 16));
  rgb[2] = colour::clamp_byte(luma + ((116130 * blue + 32768) >> 16));
}

template <int channels>
__global__ void make_pixels(const Picture* pictures) {
  const Picture& picture = pictures[blockIdx.y];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= picture.region_height * picture.region_width) return;
  const Position at = stored(picture, picture.region_top + i / picture.region_width,
                             picture.region_left + i % picture.region_width);
  const int luma = picture.luma[static_cast<size_t>(at.y) * picture.width + at.x];
  std::uint8_t rgb[3] = {static_cast<std::uint8_t>(luma), static_cast<std::uint8_t>(luma),
                         static_cast<std::uint8_t>(luma)};
  if (picture.components == 3) {
    const int height = (picture.height + picture.down - 1) / picture.down;
    const int width = (picture.width + picture.across - 1) / picture.across;
    to_rgb(luma, upsampled({picture.blue, height, width}, picture.across, picture.down, at.y, at.x),
           upsampled({picture.red, height, width}, picture.across, picture.down, at.y, at.x), rgb);
  }
  std::uint8_t* to = picture.region + static_cast<size_t>(i) * channels;
  if (channels == 1) {
    to[0] = picture.components == 1 ? rgb[0] : colour::luma(rgb);
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

// Pixel (y, x) after a pass across, or down, over rows of `width` pixels.
template <int channels>
__device__ void pass_across(const Picture& picture, const std::uint8_t* from, int width, int y,
                            int x, std::uint8_t* to) {
  convolve<channels>(from + static_cast<size_t>(y) * width * channels, channels,
                     picture.columns + static_cast<size_t>(x) * (2 + picture.column_taps), to);
}
template <int channels>
__device__ void pass_down(const Picture& picture, const std::uint8_t* from, int width, int y, int x,
                          std::uint8_t* to) {
  convolve<channels>(from + static_cast<size_t>(x) * channels,
                     static_cast<size_t>(width) * channels,
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
    pass_down<channels>(picture, picture.region, picture.region_width, i / width, i % width, to);
  else
    pass_across<channels>(picture, picture.region, picture.region_width, i / width, i % width, to);
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
    pass_across<channels>(picture, picture.between, picture.region_width, y, x, to);
  } else {
    pass_down<channels>(picture, picture.between, picture.window_width, y, x, to);
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
  make_pixels<channels><<<grid(largest.region_pixels), kThreads, 0, stream>>>(pictures);
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

__device__ bool erased(const Preparation& p, std::int64_t sample, int y, int x) {
  if (p.erase == nullptr) return false;
  const std::int32_t* box = p.erase + 4 * sample;
  return y >= box[0] && y < box[0] + box[2] && x >= box[1] && x < box[1] + box[3];
}

// Normalised, then erased.
__device__ float value_of(const Preparation& p, std::int64_t sample, int pixel, int y, int x,
                          int channel) {
  if (erased(p, sample, y, x)) return 0.0F;
  const std::int64_t at =
      (sample * p.height * p.width + pixel) * static_cast<std::int64_t>(p.channels) + channel;
  return (static_cast<float>(p.images[at]) - p.shift[channel]) * p.factor[channel];
}

template <class T>
__global__ void prepare_pixels(const Preparation p) {
  const int pixels = p.height * p.width;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= (p.end - p.begin) * pixels) return;
  const std::int64_t row = i / pixels;
  const int pixel = static_cast<int>(i % pixels);
  const int y = pixel / p.width;
  const int x = pixel % p.width;
  const std::int64_t sample = p.begin + row;
  const std::int64_t partner = min(sample ^ 1, p.size - 1);
  const bool from_partner = p.mix == 2 && y >= p.box_top && y < p.box_top + p.box_height &&
                            x >= p.box_left && x < p.box_left + p.box_width;
  T* to = static_cast<T*>(p.input);
  for (int channel = 0; channel < p.channels; ++channel) {
    float value = value_of(p, from_partner ? partner : sample, pixel, y, x, channel);
    if (p.mix == 1) value = value * p.own + value_of(p, partner, pixel, y, x, channel) * p.other;
    const std::int64_t at = p.channels_last
                                ? i * p.channels + channel
                                : (row * p.channels + channel) * pixels + pixel;
    to[at] = cast<T>(value);
  }
}

}  // namespace

const char* build(const Picture* pictures, int count, const Largest& largest, int height, int width,
                  int channels, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return channels == 1 ? build_with<1>(pictures, count, largest, height, width, on)
                       : build_with<3>(pictures, count, largest, height, width, on);
}

const char* prepare(const Preparation& preparation, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const int blocks = blocks_for((preparation.end - preparation.begin) * preparation.height *
                                static_cast<long long>(preparation.width));
  switch (preparation.type) {
    case Type::float32:
      prepare_pixels<float><<<blocks, kThreads, 0, on>>>(preparation);
      break;
    case Type::bfloat16:
      prepare_pixels<__nv_bfloat16><<<blocks, kThreads, 0, on>>>(preparation);
      break;
    case Type::float16:
      prepare_pixels<__half><<<blocks, kThreads, 0, on>>>(preparation);
      break;
  }
  return launched();
}

}  // namespace trainer::data::kernels
