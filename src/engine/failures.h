// The edge of the engine: nothing of LibTorch's types leaves it.
#pragma once

#include <functional>

namespace trainer::engine {

// Runs a command's body. What the libraries below throw becomes an Error (out_of_memory, device);
// what cannot be told apart stays as it is, and is a bug.
int with_own_failures(const std::function<int()>& body);

}  // namespace trainer::engine
