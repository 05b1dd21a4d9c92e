#include "data/sources/sources.h"

#include "core/error.h"

namespace trainer::data {
namespace {

// One line a kind.
struct Make {
  std::unique_ptr<Source> operator()(const config::TokenSource&) const {
    throw Error(Exit::config, "the source gives text; this command works on images alone");
  }

  std::uint64_t seed;
  std::unique_ptr<Source> operator()(const config::Digits& c) const { return make_digits(c); }
  std::unique_ptr<Source> operator()(const config::ImageFolder& c) const {
    return make_image_folder(c);
  }
  std::unique_ptr<Source> operator()(const config::Manifest& c) const { return make_manifest(c); }
  std::unique_ptr<Source> operator()(const config::TarShards& c) const {
    return make_tar_shards(c);
  }
  std::unique_ptr<Source> operator()(const config::Cifar& c) const { return make_cifar(c); }
  std::unique_ptr<Source> operator()(const config::Mnist& c) const { return make_mnist(c); }
  std::unique_ptr<Source> operator()(const config::Synthetic& c) const {
    return make_synthetic(c, seed);
  }
};

}  // namespace

std::unique_ptr<Source> make_source(const config::Source& config, std::uint64_t seed) {
  return std::visit(Make{seed}, config);
}

}  // namespace trainer::data
