// What the tests of messages share.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/error.h"

namespace trainer {

// The error that `call` throws, or one of Exit::done where it throws none.
template <class Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(Exit::done, "nothing was thrown");
}

// The message of the error with this exit code that `action` throws.
inline std::string error_of(Exit code, const std::function<void()>& action) {
  const Error error = error_of(action);
  EXPECT_EQ(error.code(), code) << error.what();
  return error.what();
}

}  // namespace trainer
