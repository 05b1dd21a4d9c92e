// Data sets that are part of the binary: the files of datasets/digits, put there by the build.
#pragma once

#include "data/sources/files.h"

namespace trainer::data::embedded {

Bytes digits_train_images();
Bytes digits_train_labels();
Bytes digits_test_images();
Bytes digits_test_labels();

}  // namespace trainer::data::embedded
