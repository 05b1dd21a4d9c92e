#include "engine/export.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/log.h"
#include "data/sources/files.h"
#include "engine/failures.h"
#include "engine/samples.h"
#include "engine/torchscript.h"
#include "engine/use_checkpoint.h"
#include "models/adapters.h"
#include "models/hugging_face.h"

namespace trainer::engine {
namespace {

namespace fs = std::filesystem;

// A file or folder that appears when it is whole, and not at all where its making fails.
void write_whole(const fs::path& output, const std::function<void(const fs::path&)>& write) {
  fs::path target = fs::absolute(output).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  const fs::path temporary = target.parent_path() / (".tmp-" + target.filename().string() + "-" +
                                                     std::to_string(::getpid()));
  std::error_code ignored;
  try {
    fs::create_directories(target.parent_path());
    write(temporary);
    fs::rename(temporary, target);
  } catch (const fs::filesystem_error& failure) {
    fs::remove_all(temporary, ignored);
    throw Error(Exit::storage, "--output " + data::printable(output) +
                                   " cannot be written: " + failure.code().message());
  } catch (...) {
    fs::remove_all(temporary, ignored);
    throw;
  }
}

void write_json(const fs::path& path, const nlohmann::json& json) {
  std::ofstream file(path, std::ios::binary);
  const auto replace = nlohmann::json::error_handler_t::replace;
  file << json.dump(2, ' ', /*ensure_ascii=*/false, replace) << '\n';
  file.close();
  if (!file) {
    throw Error(Exit::storage,
                data::printable(path) + " cannot be written: " + std::strerror(errno));
  }
}

NamedTensors detached(const NamedTensors& tensors) {
  NamedTensors plain;
  for (const auto& [name, value] : tensors) plain.push_back({name, value.detach().contiguous()});
  return plain;
}

void write_adapters(const SavedRun& run, const models::Model& model, const fs::path& folder) {
  const config::ModelCommon& common = config::common(run.experiment.model);
  models::AdapterOptions options;
  options.rank = common.lora->rank;
  options.alpha = common.lora->alpha;
  options.dropout = common.lora->dropout;
  const std::string base = common.weights ? common.weights->path : std::string();
  fs::create_directory(folder);
  checkpoint::write_safetensors(folder / "adapter_model.safetensors",
                                detached(models::peft_tensors(model)));
  write_json(folder / "adapter_config.json", models::peft_config(model, options, base));
}

// What transformers reads a tokenizer from.
constexpr std::array<const char*, 8> kTokenizerFiles{"tokenizer.json",
                                                     "tokenizer_config.json",
                                                     "special_tokens_map.json",
                                                     "added_tokens.json",
                                                     "vocab.json",
                                                     "merges.txt",
                                                     "tokenizer.model",
                                                     "chat_template.jinja"};

std::optional<config::Tokenizer> tokenizer_config(const config::Experiment& experiment) {
  const auto source = text_source(experiment.data.train);
  if (!source) return std::nullopt;
  if (const auto* files = std::get_if<config::TokenFiles>(&*source)) return files->tokenizer;
  return std::visit(
      [](const auto& kind) -> std::optional<config::Tokenizer> { return kind.tokenizer; }, *source);
}

void copy_tokenizer(const config::Experiment& experiment, const fs::path& folder) {
  const auto tokenizer = tokenizer_config(experiment);
  if (!tokenizer || tokenizer->kind != config::Tokenizer::Kind::file) return;
  const fs::path path = tokenizer->path;
  if (!fs::exists(path)) {
    log::warning("the tokenizer " + data::printable(path) +
                 " is not there any more, so its files are not beside the weights");
    return;
  }
  // A tokenizer.json comes with what stands beside it.
  const fs::path from = fs::is_directory(path) ? path : path.parent_path();
  for (const char* name : kTokenizerFiles)
    if (fs::exists(from / name)) fs::copy_file(from / name, folder / name);
  if (!fs::is_directory(path) && !fs::exists(folder / path.filename()))
    fs::copy_file(path, folder / path.filename());
}

void write_hugging_face(const SavedRun& run, const models::Model& model, const fs::path& folder) {
  const config::Model& config = run.experiment.model;
  nlohmann::json values = models::hugging_face_config(config, run.outputs());
  const std::vector<std::string> names = run.class_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == 0) values["label2id"] = values["id2label"] = nlohmann::json::object();
    values["id2label"][std::to_string(i)] = names[i];
    values["label2id"][names[i]] = i;
  }
  fs::create_directory(folder);
  checkpoint::write_safetensors(
      folder / "model.safetensors",
      detached(models::to_hugging_face(models::merged_state(model), config)));
  write_json(folder / "config.json", values);
  copy_tokenizer(run.experiment, folder);
}

void write_script(const SavedRun& run, models::Model& model, const fs::path& file) {
  ScriptInput input;
  if (const auto* language = config::language_model_of(run.experiment.model))
    input.context = language->context;
  else
    input.image = input_of(run.experiment);
  const ScriptShapes shapes = write_torchscript(model, input, file);
  if (shapes.any_batch) return;
  log::warning("the module takes one " +
               (input.context > 0 ? "sequence of " + std::to_string(input.context) + " tokens"
                                  : std::string("image")) +
               " at a time: its sizes could not be left open");
}

void check(const ExportOptions& options, const SavedRun& run) {
  if (options.adapters && !config::common(run.experiment.model).lora) {
    throw Error(Exit::usage,
                "--adapters: the run trained no adapters (it has no model.lora); leave it out");
  }
  if (fs::exists(fs::symlink_status(options.output))) {
    throw Error(Exit::storage, "--output " + data::printable(options.output) +
                                   ": exists already; remove it, or give another path");
  }
}

int export_checked(const ExportOptions& options) {
  const SavedRun run = open_saved_run(options.checkpoint);
  check(options, run);
  const auto model = make_model(run, at::kCPU);
  write_whole(options.output, [&](const fs::path& path) {
    using Format = ExportOptions::Format;
    if (options.format == Format::huggingface)
      write_hugging_face(run, *model, path);
    else if (options.format == Format::torchscript)
      write_script(run, *model, path);
    else if (options.adapters)
      write_adapters(run, *model, path);
    else
      checkpoint::write_safetensors(path, detached(models::merged_state(*model)));
  });
  log::info("written to " + data::printable(options.output));
  return static_cast<int>(Exit::done);
}

}  // namespace

int export_model(const ExportOptions& options) {
  return with_own_failures([&options] { return export_checked(options); });
}

}  // namespace trainer::engine
