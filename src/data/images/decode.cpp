#include "data/decode.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.h"
#include "data/images_module.h"
#include "data/jpeg.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "libtrainer_images.so";

bool starts_with(Bytes bytes, std::string_view magic, std::size_t offset = 0) {
  return bytes.size() >= offset + magic.size() &&
         std::memcmp(bytes.data() + offset, magic.data(), magic.size()) == 0;
}

// The folders that may hold the module: $TRAINER_LIB, then beside the file that holds this code
// (the binary, or a shared object) and in the lib folder next to it.
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
  if (::dladdr(reinterpret_cast<void*>(&decode_image), &self) != 0 && self.dli_fname != nullptr) {
    const fs::path object = fs::absolute(self.dli_fname, failure);
    if (!failure && object != binary) add_near(object);
  }
  return folders;
}

struct Module {
  TrainerImagesDecode decode = nullptr;
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
    void* symbol = ::dlsym(handle, kTrainerImagesDecode);
    if (symbol != nullptr) {
      module.decode = reinterpret_cast<TrainerImagesDecode>(symbol);
      return module;
    }
    module.reason = file.string() + " is of another version of trainer";
  }
  if (module.reason.empty()) module.reason = std::string(kModule) + " was not found";
  return module;
}

unsigned char* allocate_pixels(void* context, int height, int width) {
  auto& image = *static_cast<Image*>(context);
  image.height = height;
  image.width = width;
  image.channels = 3;
  try {
    image.pixels.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return image.pixels.data();
}

void decode_by_module(Bytes bytes, Image& image) {
  static const Module module = load_module();
  if (module.decode == nullptr) {
    throw Error(Exit::data,
                "only JPEG is read without the images module: " + module.reason +
                    "; build trainer where OpenCV is installed (Debian: libopencv-dev), put the "
                    "module beside the binary or name its folder in TRAINER_LIB, or convert the "
                    "files to JPEG");
  }
  std::array<char, 512> message{};
  if (module.decode(bytes.data(), bytes.size(), allocate_pixels, &image, message.data(),
                    message.size()) != 0)
    throw Error(Exit::data, message.data());
}

}  // namespace

Format format_of(Bytes bytes) {
  if (starts_with(bytes, "\xFF\xD8\xFF")) return Format::jpeg;
  if (starts_with(bytes, "\x89PNG\r\n\x1A\n")) return Format::png;
  if (starts_with(bytes, "RIFF") && starts_with(bytes, "WEBP", 8)) return Format::webp;
  if (starts_with(bytes, {"II*\0", 4}) || starts_with(bytes, {"MM\0*", 4})) return Format::tiff;
  if (starts_with(bytes, "BM")) return Format::bmp;
  if (bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6') return Format::pnm;
  return Format::unknown;
}

void decode_image(Bytes bytes, Image& image) {
  if (bytes.empty()) throw Error(Exit::data, "the file is empty");
  switch (format_of(bytes)) {
    case Format::jpeg:
      return decode_jpeg(bytes, image);
    case Format::unknown:
      throw Error(Exit::data,
                  "the content is no image of a known format (JPEG, PNG, BMP, WebP, TIFF, PNM)");
    default:
      return decode_by_module(bytes, image);
  }
}

}  // namespace trainer::data
