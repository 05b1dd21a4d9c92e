// The makers of each kind of source; `make_source` picks among them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "config/experiment.h"
#include "data/dataset.h"

namespace trainer::data {

// A source whose samples are whole files.
class FileSource : public Source {
 public:
  // The sample's file as it is called (`sample_name` escapes it for messages).
  virtual std::filesystem::path file(std::int64_t index) const = 0;
};

std::unique_ptr<Source> make_digits(const config::Digits& config);
std::unique_ptr<Source> make_image_folder(const config::ImageFolder& config);
std::unique_ptr<Source> make_manifest(const config::Manifest& config);
std::unique_ptr<Source> make_tar_shards(const config::TarShards& config);
std::unique_ptr<Source> make_cifar(const config::Cifar& config);
std::unique_ptr<Source> make_mnist(const config::Mnist& config);
std::unique_ptr<Source> make_synthetic(const config::Synthetic& config, std::uint64_t seed);

}  // namespace trainer::data
