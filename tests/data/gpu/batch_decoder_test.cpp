// The GPU's decoding, cropping, resizing and colours against the CPU's, on the same files.
#include "data/gpu/batch_decoder.h"

#include <ATen/Context.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "data/feed.h"
#include "support.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// The files of a folder, in the order of their names.
class FilesSource : public Source {
 public:
  explicit FilesSource(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      std::ifstream file(path, std::ios::binary);
      files_.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
      paths_.push_back(path);
    }
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int64_t classes() const override { return 2; }
  bool encoded() const override { return true; }
  int channels() const override { return 3; }
  Raw fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const override {
    buffer = files_[static_cast<std::size_t>(index)];
    return {buffer};
  }
  std::int64_t label(std::int64_t index) const override { return index % 2; }
  std::string sample_name(std::int64_t index) const override {
    return paths_[static_cast<std::size_t>(index)];
  }
  std::string describe() const override { return "files"; }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  std::vector<std::string> paths_;
  std::vector<std::vector<std::uint8_t>> files_;
  std::vector<std::string> names_;
};

// JPEG files of every kind that the CPU reads; $TRAINER_TEST_IMAGES names a folder of others.
std::vector<std::string> files() {
  const char* wanted = std::getenv("TRAINER_TEST_IMAGES");
  const fs::path folder = wanted != nullptr ? fs::path(wanted) : kGolden / "decode";
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".jpg") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

struct Pipe {
  Pipe(const Source& source, const std::vector<config::Transform>& transforms, int channels,
       bool gpu, config::BadSample policy = config::BadSample::fail, std::int64_t batch = 32)
      : pipeline(transforms, channels),
        loader(source, pipeline, Sampler(source.size(), batch, false, true, 3),
               options(gpu, policy)),
        feed(loader, pipeline.normalisation(), pipeline.erases(),
             {.device = at::kCUDA,
              .memory_format = at::MemoryFormat::ChannelsLast,
              .classes = 2,
              .mix = {},
              .seed = 3,
              .type = at::kFloat}) {}

  static LoaderOptions options(bool gpu, config::BadSample policy) {
    LoaderOptions options;
    options.workers = 3;
    options.samples.seed = 5;
    options.last_step = 6;
    options.on_bad_sample = policy;
    options.leave_jpeg = gpu;
    options.allocate = host_allocator(true);
    return options;
  }

  Pipeline pipeline;
  Loader loader;
  Feed feed;
};

std::string no_decoder() {
  if (!at::hasCUDA()) return "no CUDA device";
  const CountingSource source(4, 8, 8);
  const Pipeline pipeline({}, 3);
  const Loader loader(source, pipeline, Sampler(4, 4, false, false, 1), {});
  return no_gpu_decoding(loader, at::Device(at::kCUDA, 0));
}

struct Difference {
  double mean = 0;
  double most = 0;
};

// In grey levels, over all steps.
Difference compare(const Source& source, const std::vector<config::Transform>& transforms,
                   int channels) {
  Pipe gpu(source, transforms, channels, true);
  Pipe cpu(source, transforms, channels, false);
  Difference difference;
  int batches = 0;
  while (const StepBatch* got = gpu.feed.next()) {
    const StepBatch* wanted = cpu.feed.next();
    EXPECT_EQ(got->size(), wanted->size());
    const Batch a = got->micro(0, got->size());
    const Batch b = wanted->micro(0, wanted->size());
    EXPECT_TRUE(a.target.equal(b.target));
    const at::Tensor apart = a.input.sub(b.input).abs().mul(255.0);
    difference.mean += apart.mean().item<double>();
    difference.most = std::max(difference.most, apart.max().item<double>());
    ++batches;
  }
  difference.mean /= batches;
  return difference;
}

// Files that the hardware takes are decoded by another implementation of the inverse DCT, which the
// standard lets differ by one; chroma and colours multiply that by up to 1.8.
TEST(GpuDecode, EqualsTheCpu) {
  if (const std::string reason = no_decoder(); !reason.empty()) GTEST_SKIP() << reason;
  const FilesSource source(files());
  using Transforms = std::vector<config::Transform>;
  const config::RandomResizedCrop bilinear{.size = 48};
  const config::RandomResizedCrop bicubic{.size = 40,
                                          .interpolation = config::Interpolation::bicubic};
  const config::ColorJitter jitter{0.4, 0.4, 0.4, 0.1};
  const std::vector<std::pair<std::string, Transforms>> lists{
      {"random_resized_crop", {bilinear, config::HorizontalFlip{}}},
      {"bicubic", {bicubic, config::HorizontalFlip{}}},
      {"color_jitter", {bilinear, jitter, config::HorizontalFlip{}}},
      {"resize and center_crop", {config::Resize{.size = 40}, config::CenterCrop{36}}},
      {"padding", {config::CenterCrop{150}, config::RandomCrop{150, 0}}},
      {"identity", {config::RandomCrop{160, 80}}}};
  for (const int channels : {3, 1}) {
    for (const auto& [name, transforms] : lists) {
      const Difference difference = compare(source, transforms, channels);
      std::printf("%s, %d channels: mean %.5f, most %.1f grey levels\n", name.c_str(), channels,
                  difference.mean, difference.most);
      // Larger pictures of one's own may be reduced by the CPU's decoder: Note [Reduction].
      const bool own = std::getenv("TRAINER_TEST_IMAGES") != nullptr;
      EXPECT_LE(difference.mean, own ? 1.0 : 0.1) << name;
      if (!own) {
        EXPECT_LE(difference.most, 4.0) << name;
      }
    }
  }
}

// A batch of several chunks, whose pictures have many sizes.
TEST(GpuDecode, ChunksDoNotDisturbOneAnother) {
  if (const std::string reason = no_decoder(); !reason.empty()) GTEST_SKIP() << reason;
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i)
    for (const std::string& path : files()) paths.push_back(path);
  const FilesSource source(paths);
  const std::vector<config::Transform> crop{config::RandomResizedCrop{.size = 64}};
  Pipe gpu(source, crop, 3, true, config::BadSample::fail, 600);
  Pipe cpu(source, crop, 3, false, config::BadSample::fail, 600);
  while (const StepBatch* got = gpu.feed.next()) {
    const StepBatch* wanted = cpu.feed.next();
    const at::Tensor apart =
        got->micro(0, got->size()).input.sub(wanted->micro(0, wanted->size()).input).abs();
    EXPECT_LE(apart.max().item<float>() * 255.0F, 4.0F);
  }
}

// The device is kept so busy that the host runs ahead of it: what were overwritten too early would
// show in the values.
TEST(GpuDecode, IsSafeWhileTheDeviceIsBehind) {
  if (const std::string reason = no_decoder(); !reason.empty()) GTEST_SKIP() << reason;
  std::vector<std::string> paths;
  for (int i = 0; i < 20; ++i)
    for (const std::string& path : files()) paths.push_back(path);
  const FilesSource source(paths);
  const std::vector<config::Transform> crop{config::RandomResizedCrop{.size = 64}};
  Pipe gpu(source, crop, 3, true, config::BadSample::fail, 200);
  Pipe cpu(source, crop, 3, false, config::BadSample::fail, 200);
  at::Tensor load = at::ones({4096, 4096}, at::kCUDA).mul_(1e-4);
  std::vector<at::Tensor> inputs;
  while (const StepBatch* batch = gpu.feed.next()) {
    for (int i = 0; i < 20; ++i) load = at::matmul(load, load);
    inputs.push_back(batch->micro(0, batch->size()).input);
  }
  ASSERT_EQ(inputs.size(), 6U);
  for (const at::Tensor& input : inputs) {
    const StepBatch* wanted = cpu.feed.next();
    const at::Tensor apart = input.sub(wanted->micro(0, wanted->size()).input).abs();
    EXPECT_LE(apart.max().item<float>() * 255.0F, 4.0F);
  }
}

TEST(GpuDecode, LeavesNothingOfABatchUndone) {
  if (const std::string reason = no_decoder(); !reason.empty()) GTEST_SKIP() << reason;
  const FilesSource source(files());
  Pipe gpu(source, {config::RandomResizedCrop{.size = 32}}, 3, true);
  std::int64_t samples = 0;
  while (const StepBatch* batch = gpu.feed.next()) {
    samples += batch->size();
    const at::Tensor input = batch->micro(0, batch->size()).input;
    // No image of these is all black.
    EXPECT_GT(input.amax({1, 2, 3}).min().item<float>(), 0.0F);
  }
  EXPECT_GT(samples, 0);
}

TEST(GpuDecode, BadFilesAreTreatedAsOnTheCpu) {
  if (const std::string reason = no_decoder(); !reason.empty()) GTEST_SKIP() << reason;
  const fs::path folder = fs::temp_directory_path() / ("trainer-bad-" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::vector<std::string> paths = files();
  const auto add = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    paths.push_back((folder / name).string());
  };
  std::ifstream whole(kGolden / "decode" / "regions_420.jpg", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(whole), {}};
  add("cut.jpg", bytes.substr(0, bytes.size() / 2));
  add("text.jpg", "no picture");
  const FilesSource source(paths);
  for (const auto policy : {config::BadSample::skip, config::BadSample::replace}) {
    Pipe gpu(source, {config::RandomResizedCrop{.size = 32}}, 3, true, policy);
    Pipe cpu(source, {config::RandomResizedCrop{.size = 32}}, 3, false, policy);
    std::size_t bad = 0;
    while (const StepBatch* got = gpu.feed.next()) {
      const StepBatch* wanted = cpu.feed.next();
      ASSERT_EQ(got->size(), wanted->size());
      ASSERT_EQ(got->bad().size(), wanted->bad().size());
      bad += got->bad().size();
      for (std::size_t i = 0; i < got->bad().size(); ++i) {
        EXPECT_EQ(got->bad()[i].index, wanted->bad()[i].index);
        EXPECT_EQ(got->bad()[i].replaced_by, wanted->bad()[i].replaced_by);
      }
      const at::Tensor apart =
          got->micro(0, got->size()).input.sub(wanted->micro(0, wanted->size()).input).abs();
      EXPECT_LE(apart.max().item<float>() * 255.0F, 4.0F);
    }
    EXPECT_GT(bad, 0U);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace trainer::data
