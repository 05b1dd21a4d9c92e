#include "checkpoint/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/names.h"
#include "checkpoint/tensor_io.h"
#include "core/error.h"

namespace trainer::checkpoint {
namespace {

namespace fs = std::filesystem;

Manifest parse_manifest(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  if (const int version = json.at("version").get<int>(); version != kManifestVersion)
    throw Error(Exit::storage, "version " + std::to_string(version) + " is not known; only " +
                                   std::to_string(kManifestVersion) + " is");
  Manifest manifest;
  manifest.parts = json.at("parts").get<std::vector<std::string>>();
  for (const auto& [name, file] : json.at("files").items()) {
    if (name.find('/') != std::string::npos)
      throw Error(Exit::storage, "the file " + name + " is not in this folder");
    manifest.files[name] = {file.at("size").get<std::int64_t>(),
                            file.at("xxh3").get<std::string>()};
  }
  return manifest;
}

// Each part's tensors are in the list under a name that the part gives.
void check_parts(const Manifest& manifest) {
  for (const auto& file : manifest.files) {
    const std::string& name = file.first;
    const bool of_part =
        std::any_of(manifest.parts.begin(), manifest.parts.end(),
                    [&](const std::string& part) { return tensors_file(part) == name; });
    if (name != kStateFile && !of_part)
      throw Error(Exit::storage, "the file " + name + " belongs to no part");
  }
  if (!manifest.files.contains(kStateFile))
    throw Error(Exit::storage, std::string("it does not list ") + kStateFile);
}

void check_size(const fs::path& path, std::int64_t expected) {
  std::error_code failure;
  const auto size = fs::file_size(path, failure);
  if (failure) throw Error(Exit::storage, path.string() + ": cannot be read: " + failure.message());
  if (size != static_cast<std::uintmax_t>(expected))
    throw Error(Exit::storage, path.string() + ": has " + std::to_string(size) +
                                   " bytes where the manifest says " + std::to_string(expected));
}

void check_fingerprint(const InputFile& file, const Fingerprint& expected) {
  if (file.fingerprint() != expected)
    throw Error(Exit::storage,
                file.path().string() + ": its contents are not those that were written (XXH3 " +
                    file.fingerprint().xxh3 + ", the manifest says " + expected.xxh3 + ")");
}

}  // namespace

Manifest read_manifest(const fs::path& folder) {
  InputFile file(folder / kManifestFile);
  Manifest manifest;
  try {
    manifest = parse_manifest(file.read_rest());
    check_parts(manifest);
  } catch (const nlohmann::json::exception& error) {
    throw Error(Exit::storage, file.path().string() + ": not a valid manifest: " + error.what());
  } catch (const Error& error) {
    throw Error(Exit::storage, file.path().string() + ": not a valid manifest: " + error.what());
  }
  for (const auto& [name, fingerprint] : manifest.files)
    check_size(folder / name, fingerprint.size);
  return manifest;
}

std::string read_verified_text(const fs::path& folder, const Manifest& manifest,
                               const std::string& file) {
  InputFile input(folder / file);
  std::string text = input.read_rest();
  check_fingerprint(input, manifest.files.at(file));
  return text;
}

NamedTensors read_verified_tensors(const fs::path& folder, const Manifest& manifest,
                                   const std::string& file) {
  InputFile input(folder / file);
  NamedTensors tensors = read_tensors(input);
  check_fingerprint(input, manifest.files.at(file));
  return tensors;
}

}  // namespace trainer::checkpoint
