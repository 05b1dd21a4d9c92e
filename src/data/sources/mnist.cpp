// MNIST and the sets in its format (Fashion-MNIST, KMNIST), as uncompressed IDX files.
#include <filesystem>

#include "core/error.h"
#include "data/sources/idx.h"
#include "data/sources/sources.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// The publisher's name, or the one that some unpackers leave (train-images.idx3-ubyte).
fs::path find_idx(const fs::path& folder, const std::string& stem, const std::string& type) {
  fs::path usual = folder / (stem + "-" + type + "-ubyte");
  if (fs::exists(usual)) return usual;
  fs::path dotted = folder / (stem + "." + type + "-ubyte");
  if (fs::exists(dotted)) return dotted;
  const fs::path compressed = usual.string() + ".gz";
  if (fs::exists(compressed)) {
    throw Error(Exit::data,
                compressed.string() + ": compressed files are not read; run gunzip on it");
  }
  throw Error(Exit::data,
              usual.string() + ": no such file; `scripts/get_data.sh mnist` fetches the set");
}

}  // namespace

std::unique_ptr<Source> make_mnist(const config::Mnist& config) {
  const bool train = config.split == config::Split::train;
  const std::string stem = train ? "train" : "t10k";
  struct Files {
    MappedFile images, labels;
  };
  auto files =
      std::make_shared<Files>(Files{MappedFile(find_idx(config.path, stem + "-images", "idx3")),
                                    MappedFile(find_idx(config.path, stem + "-labels", "idx1"))});
  const IdxFile images{files->images.path().string(), files->images.bytes()};
  const IdxFile labels{files->labels.path().string(), files->labels.bytes()};
  return std::make_unique<IdxSource>("mnist " + config.path + (train ? " (train)" : " (test)"),
                                     images, labels, digit_names(), std::move(files));
}

}  // namespace trainer::data
