// The shared object with everything that needs LibTorch, loaded when a command first needs it.
#pragma once

namespace trainer::cli {

// The address of what the engine exports as `name`. Loading LibTorch takes longer than checking an
// experiment file does, so ask when the file is good. Throws Error(device) where the library
// cannot be loaded or is of another version.
void* engine_symbol(const char* name);

template <class Function>
Function engine_function(const char* name) {
  return reinterpret_cast<Function>(engine_symbol(name));
}

}  // namespace trainer::cli
