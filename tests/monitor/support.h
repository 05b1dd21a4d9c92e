// What the tests of records share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "monitor/record.h"
#include "support/files.h"

namespace trainer::monitor {

inline Record step_record(std::int64_t step, double loss) {
  Record record;
  record.add("step", step);
  record.add("loss", loss);
  return record;
}

inline Record evaluation_record(std::int64_t step, double accuracy) {
  Record record;
  record.kind = Record::Kind::evaluation;
  record.add("step", step);
  record.add("val/accuracy", accuracy);
  return record;
}

}  // namespace trainer::monitor
