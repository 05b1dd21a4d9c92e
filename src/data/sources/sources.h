// The makers of each kind of source; `make_source` picks among them.
#pragma once

#include <cstdint>
#include <memory>

#include "config/experiment.h"
#include "data/dataset.h"

namespace trainer::data {

std::unique_ptr<Source> make_digits(const config::Digits& config);
std::unique_ptr<Source> make_image_folder(const config::ImageFolder& config);
std::unique_ptr<Source> make_cifar(const config::Cifar& config);
std::unique_ptr<Source> make_mnist(const config::Mnist& config);
std::unique_ptr<Source> make_synthetic(const config::Synthetic& config, std::uint64_t seed);

}  // namespace trainer::data
