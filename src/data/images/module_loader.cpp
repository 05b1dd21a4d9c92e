#include "data/images/module_loader.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "core/error.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "libtrainer_images.so";

// The folders that may hold the module.
std::vector<fs::path> module_folders() {
  std::vector<fs::path> folders;
  if (const char* wanted = std::getenv("TRAINER_LIB"); wanted != nullptr && *wanted != '\0')
    folders.emplace_back(wanted);
  const auto add_near = [&folders](const fs::path& file) {
    folders.push_back(file.parent_path() / ".." / "lib");
    folders.push_back(file.parent_path());
  };
  std::error_code failure;
  const fs::path binary = fs::read_symlink("/proc/self/exe", failure);
  if (!failure) add_near(binary);
  Dl_info self{};
  if (::dladdr(reinterpret_cast<void*>(&decode_by_module), &self) != 0 &&
      self.dli_fname != nullptr) {
    const fs::path object = fs::absolute(self.dli_fname, failure);
    if (!failure && object != binary) add_near(object);
  }
  return folders;
}

struct Module {
  TrainerImagesDecode decode = nullptr;
  TrainerImagesWritePng write_png = nullptr;
  std::string reason;  // why there is none
};

Module load_module() {
  Module module;
  for (const fs::path& folder : module_folders()) {
    const fs::path file = folder / kModule;
    if (!fs::exists(file)) continue;
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      module.reason = ::dlerror();
      continue;
    }
    module.decode = reinterpret_cast<TrainerImagesDecode>(::dlsym(handle, kTrainerImagesDecode));
    module.write_png =
        reinterpret_cast<TrainerImagesWritePng>(::dlsym(handle, kTrainerImagesWritePng));
    if (module.decode != nullptr && module.write_png != nullptr) return module;
    module.decode = nullptr;
    module.write_png = nullptr;
    module.reason = file.string() + " is of another version of trainer";
  }
  if (module.reason.empty()) module.reason = std::string(kModule) + " was not found";
  return module;
}

const Module& the_module() {
  static const Module module = load_module();
  return module;
}

// `context` is an Image whose channels are set.
unsigned char* allocate_pixels(void* context, int height, int width) {
  auto& image = *static_cast<Image*>(context);
  image.height = height;
  image.width = width;
  try {
    image.pixels.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
                        static_cast<std::size_t>(image.channels));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return image.pixels.data();
}

}  // namespace

void decode_by_module(Bytes bytes, const TrainerImagesOptions& options, Image& image) {
  const Module& module = the_module();
  if (module.decode == nullptr) {
    throw Error(Exit::data,
                "only JPEG and PNM are read without the images module: " + module.reason +
                    "; build trainer where OpenCV is installed (Debian: libopencv-dev), put the "
                    "module beside the binary or name its folder in TRAINER_LIB, or convert the "
                    "files to JPEG");
  }
  image.channels = options.channels;
  std::array<char, 512> message{};
  if (module.decode(bytes.data(), bytes.size(), &options, allocate_pixels, &image, message.data(),
                    message.size()) != 0)
    throw Error(Exit::data, message.data());
}

void write_png_by_module(const Image& rgb, std::span<const TrainerImagesCaption> captions,
                         const fs::path& path) {
  const Module& module = the_module();
  if (module.write_png == nullptr) {
    throw Error(Exit::device,
                "pictures are written by the images module, which is missing: " + module.reason +
                    "; build trainer where OpenCV is installed (Debian: libopencv-dev), or put the "
                    "module beside the binary or name its folder in TRAINER_LIB");
  }
  std::array<char, 512> message{};
  if (module.write_png(rgb.pixels.data(), rgb.height, rgb.width, captions.data(), captions.size(),
                       path.c_str(), message.data(), message.size()) != 0)
    throw Error(Exit::storage, path.string() + ": cannot be written: " + message.data());
}

}  // namespace trainer::data
