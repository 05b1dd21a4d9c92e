// The UCI digits, 8x8 grey, inside the binary (see datasets/README.md).
#include "data/embedded.h"
#include "data/sources/idx.h"
#include "data/sources/sources.h"

namespace trainer::data {

std::unique_ptr<Source> make_digits(const config::Digits& config) {
  const bool train = config.split == config::Split::train;
  const IdxFile images{"embedded digits, images",
                       train ? embedded::digits_train_images() : embedded::digits_test_images()};
  const IdxFile labels{"embedded digits, labels",
                       train ? embedded::digits_train_labels() : embedded::digits_test_labels()};
  return std::make_unique<IdxSource>(train ? "digits (train)" : "digits (test)", images, labels,
                                     digit_names(), nullptr);
}

}  // namespace trainer::data
