// Text that is part of the binary: datasets/tinyshakespeare, put there by the build.
#pragma once

#include "data/sources/files.h"

namespace trainer::data::embedded {

Bytes tinyshakespeare();

}  // namespace trainer::data::embedded
