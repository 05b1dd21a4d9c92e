#include "cli/engine_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "core/error.h"

namespace trainer::cli {
namespace {

constexpr const char* kLibrary = "libtrainer_engine.so";

// ../lib beside this program's folder; else wherever the dynamic linker looks. By its path, since
// the program's own RUNPATH is not asked where a sanitizer stands between it and dlopen.
std::string library_path() {
  std::error_code failure;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failure);
  const auto beside = program.parent_path().parent_path() / "lib" / kLibrary;
  return !failure && std::filesystem::exists(beside, failure) ? beside.string() : kLibrary;
}

}  // namespace

void* engine_symbol(const char* name) {
  void* library = dlopen(library_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw Error(Exit::device,
                std::string("the training engine cannot be loaded: ") + dlerror() +
                    "\nIt needs LibTorch's libraries. In a build tree, run scripts/build.sh again; "
                    "from a package, start bin/trainer through its launcher, with LIBTORCH set to "
                    "an installed LibTorch.");
  }
  void* symbol = dlsym(library, name);
  if (symbol == nullptr)
    throw Error(Exit::device, std::string(kLibrary) + " is of another version: " + dlerror());
  return symbol;
}

}  // namespace trainer::cli
