// The one exception a user's mistake or a failing machine becomes, and the exit code it ends with.
#pragma once

#include <stdexcept>
#include <string>

namespace trainer {

// Exit codes of the binary, one for each kind of failure (`trainer --help` lists them).
enum class Exit : int {
  done = 0,
  usage = 2,
  config = 3,
  data = 4,
  device = 5,
  out_of_memory = 6,
  not_finite = 7,
  distributed = 8,
  storage = 9,
  internal = 70,
  interrupted = 130,
  terminated = 143,
};

// An expected failure: shown to the user as its message alone, without a stack. The message says
// what happened, where, and what to do. Anything else that escapes is a bug of ours (exit 70).
class Error : public std::runtime_error {
 public:
  Error(Exit code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Exit code() const noexcept { return code_; }

 private:
  Exit code_;
};

}  // namespace trainer
