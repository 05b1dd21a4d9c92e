#include "data/text/shard_manifest.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/error.h"
#include "core/storage.h"
#include "data/sources/files.h"
#include "data/tools/output_file.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kFormat = 1;

// Numbers of 64 bits as text: a reader that takes JSON's numbers for doubles keeps them.
std::string text_of(std::uint64_t value) { return std::to_string(value); }
std::uint64_t number_of(const Json& json) { return std::stoull(json.get<std::string>()); }

Json to_json(const ShardManifest& manifest) {
  Json shards = Json::array();
  for (const ShardManifest::Shard& shard : manifest.shards) {
    shards.push_back(
        {{"file", shard.file}, {"tokens", shard.tokens}, {"documents", shard.documents}});
  }
  return {{"format", kFormat},
          {"complete", manifest.complete},
          {"settings", text_of(manifest.settings)},
          {"tokenizer",
           {{"fingerprint", text_of(manifest.tokenizer)},
            {"description", manifest.tokenizer_text},
            {"path", manifest.tokenizer_path},
            {"alphabet", manifest.alphabet}}},
          {"shards", std::move(shards)},
          {"next",
           {{"file", manifest.next.file},
            {"offset", manifest.next.offset},
            {"inside", manifest.next.inside}}}};
}

ShardManifest from_json(const Json& json) {
  if (json.at("format") != kFormat) throw std::runtime_error("it is of another format");
  ShardManifest manifest;
  json.at("complete").get_to(manifest.complete);
  manifest.settings = number_of(json.at("settings"));
  const Json& tokenizer = json.at("tokenizer");
  manifest.tokenizer = number_of(tokenizer.at("fingerprint"));
  tokenizer.at("description").get_to(manifest.tokenizer_text);
  tokenizer.at("path").get_to(manifest.tokenizer_path);
  tokenizer.at("alphabet").get_to(manifest.alphabet);
  for (const Json& shard : json.at("shards")) {
    manifest.shards.push_back({shard.at("file").get<std::string>(),
                               shard.at("tokens").get<std::int64_t>(),
                               shard.at("documents").get<std::int64_t>()});
  }
  const Json& next = json.at("next");
  next.at("file").get_to(manifest.next.file);
  next.at("offset").get_to(manifest.next.offset);
  next.at("inside").get_to(manifest.next.inside);
  return manifest;
}

}  // namespace

std::optional<ShardManifest> read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  std::error_code unknown;
  if (!fs::exists(path, unknown)) return std::nullopt;
  std::ifstream file(path);
  try {
    return from_json(Json::parse(file));
  } catch (const std::exception& error) {
    throw Error(Exit::data, printable(path) + ": is not what `trainer data tokenize` writes (" +
                                error.what() + "); remove the folder and make it again");
  }
}

void write_manifest(const fs::path& folder, const ShardManifest& manifest) {
  const fs::path path = folder / kManifestName;
  const fs::path temporary = folder / (std::string(kManifestName) + ".partial");
  std::error_code failure;
  fs::remove(temporary, failure);
  OutputFile file(temporary);
  file.append(to_json(manifest).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  file.finish();
  fs::rename(temporary, path, failure);
  if (failure) throw_write_error(path, failure.value());
  sync_folder(folder);
}

void require_all_shards(const fs::path& folder) {
  const std::optional<ShardManifest> manifest = read_manifest(folder);
  if (!manifest) return;
  const std::string name = printable(folder);
  if (!manifest->complete) {
    throw Error(Exit::data, name + ": tokenising was not finished (" +
                                std::to_string(manifest->shards.size()) +
                                " shards are done); run the same `trainer data tokenize` again, "
                                "which goes on from there");
  }
  for (const ShardManifest::Shard& shard : manifest->shards) {
    std::error_code unknown;
    if (fs::exists(folder / shard.file, unknown)) continue;
    throw Error(Exit::data, name + ": the shard " + printable(shard.file) + " is missing (" +
                                std::to_string(manifest->shards.size()) + " belong together, see " +
                                kManifestName + "); fetch or make it again");
  }
}

}  // namespace trainer::data
