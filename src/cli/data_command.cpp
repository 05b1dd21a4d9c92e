#include "cli/data_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/engine_library.h"
#include "config/load.h"
#include "config/scalar.h"
#include "core/error.h"
#include "engine/data_commands.h"

namespace trainer::cli {
namespace {

// What all but `tokenize` read.
struct Experiment {
  std::string file;
  std::vector<std::string> overrides;

  config::Experiment load() const { return config::load_or_throw(file, overrides); }
};

void add_experiment(CLI::App& app, Experiment& experiment) {
  app.add_option("--config", experiment.file, "The experiment file (YAML)")->required();
  app.add_option("--set", experiment.overrides,
                 "Override a setting, as key.path=value (may be repeated)")
      ->take_all();
}

struct InspectArguments {
  Experiment experiment;
  std::string split = "both";
  std::string sheet;
  bool json = false, full = false, headers = false;
};

int inspect(const InspectArguments& arguments) {
  engine::InspectOptions options;
  options.experiment = arguments.experiment.load();
  options.train = arguments.split != "val";
  options.val = arguments.split != "train";
  options.headers_only = arguments.headers;
  options.json = arguments.json;
  if (!arguments.sheet.empty()) options.sheet = arguments.sheet;
  return engine_function<engine::InspectFunction>(engine::kInspectSymbol)(options);
}

void add_inspect(CLI::App& parent, int& code) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* app = parent.add_subcommand(
      "inspect", "Count classes, sizes and formats; find broken, equal and misnamed files");
  add_experiment(*app, arguments->experiment);
  app->add_option("--split", arguments->split, "train, val or both (default: both)")
      ->check(CLI::IsMember({"train", "val", "both"}));
  app->add_option("--sheet", arguments->sheet,
                  "Write the first training batch, augmented, as a picture (PNG)");
  app->add_flag("--json", arguments->json, "Print one JSON object");
  CLI::Option* full =
      app->add_flag("--full", arguments->full, "Decode every file whole (the default)");
  app->add_flag("--headers", arguments->headers,
                "Read headers only: faster, finds no equal files and less damage")
      ->excludes(full);
  app->footer(
      "Exit code 4 where files are broken, or classes are empty, mixed up or differ.\n"
      "Example:\n  trainer data inspect --config exp.yaml --sheet batch.png");
  app->callback([arguments, &code] { code = inspect(*arguments); });
}

struct PackArguments {
  Experiment experiment;
  std::string split = "train";
  std::string output;
  std::string shard_size = "1GiB";
  bool overwrite = false;
};

int pack(const PackArguments& arguments) {
  engine::PackDataOptions options;
  options.experiment = arguments.experiment.load();
  options.val = arguments.split == "val";
  options.output = arguments.output;
  options.shard_bytes = config::parse_size(arguments.shard_size).bytes.value();
  options.overwrite = arguments.overwrite;
  return engine_function<engine::PackFunction>(engine::kPackSymbol)(options);
}

void add_pack(CLI::App& parent, int& code) {
  auto arguments = std::make_shared<PackArguments>();
  CLI::App* app =
      parent.add_subcommand("pack", "Write the samples to tar shards, which are read faster");
  add_experiment(*app, arguments->experiment);
  app->add_option("--split", arguments->split, "train or val (default: train)")
      ->check(CLI::IsMember({"train", "val"}));
  app->add_option("--output", arguments->output, "The folder to make")->required();
  app->add_option("--shard-size", arguments->shard_size, "Most of one shard (default: 1GiB)")
      ->check(CLI::Validator(
          [](const std::string& text) { return config::parse_size(text).problem; }, ""));
  app->add_flag("--overwrite", arguments->overwrite, "Replace shards that an earlier pack made");
  app->footer(
      "Example:\n  trainer data pack --config exp.yaml --split val --output shards/val "
      "--shard-size 512MiB");
  app->callback([arguments, &code] { code = pack(*arguments); });
}

struct SplitArguments {
  Experiment experiment;
  double share = 0;
  std::string train, val;
  std::optional<std::uint64_t> seed;
};

int split(const SplitArguments& arguments) {
  engine::SplitDataOptions options;
  options.experiment = arguments.experiment.load();
  options.share = arguments.share;
  options.train = arguments.train;
  options.val = arguments.val;
  options.seed = arguments.seed;
  return engine_function<engine::SplitFunction>(engine::kSplitSymbol)(options);
}

void add_split(CLI::App& parent, int& code) {
  auto arguments = std::make_shared<SplitArguments>();
  CLI::App* app = parent.add_subcommand(
      "split", "Set a share of each class of data.train aside for validation");
  add_experiment(*app, arguments->experiment);
  app->add_option("--share", arguments->share, "Of each class, for validation: 0.2 is a fifth")
      ->required();
  app->add_option("--output-train", arguments->train, "The manifest to make for training (CSV)")
      ->required();
  app->add_option("--output-val", arguments->val, "The manifest to make for validation (CSV)")
      ->required();
  app->add_option("--seed", arguments->seed, "Of the drawing (default: the experiment's)");
  app->footer(
      "Example:\n  trainer data split --config exp.yaml --share 0.2 --output-train train.csv "
      "--output-val val.csv");
  app->callback([arguments, &code] { code = split(*arguments); });
}

struct TokenizeArguments {
  std::string input, output, tokenizer;
  std::string kind = "auto";
  std::optional<std::string> separator;
  int workers = 0;
  std::int64_t shard_tokens = 100'000'000;
};

// \n, \t and \\ as in most languages: a shell gives them as they are typed.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == 'n' || next == 't' || next == '\\') {
      plain += next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
      ++i;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

config::Tokenizer tokenizer_of(const std::string& text) {
  using Kind = config::Tokenizer::Kind;
  if (text == "bytes") return {Kind::bytes, ""};
  if (text == "characters") return {Kind::characters, ""};
  return {Kind::file, text};
}

bool is_jsonl(const TokenizeArguments& arguments) {
  return arguments.kind == "jsonl" ||
         (arguments.kind == "auto" && arguments.input.ends_with(".jsonl"));
}

int tokenize(const TokenizeArguments& arguments) {
  engine::TokenizeDataOptions options;
  if (is_jsonl(arguments)) {
    if (arguments.separator)
      throw Error(Exit::usage, "--document-separator is for text; a line of JSONL is a document");
    config::JsonlFiles files;
    files.path = arguments.input;
    files.tokenizer = tokenizer_of(arguments.tokenizer);
    options.input = files;
  } else {
    config::TextFiles files;
    files.path = arguments.input;
    files.tokenizer = tokenizer_of(arguments.tokenizer);
    if (arguments.separator) files.document_separator = unescaped(*arguments.separator);
    options.input = files;
  }
  options.output = arguments.output;
  options.workers = arguments.workers;
  options.shard_tokens = arguments.shard_tokens;
  return engine_function<engine::TokenizeFunction>(engine::kTokenizeSymbol)(options);
}

void add_tokenize(CLI::App& parent, int& code) {
  auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* app =
      parent.add_subcommand("tokenize", "Make shards of tokens of text, once for all runs");
  app->add_option("--input", arguments->input, "A file, a folder, or a glob of files")->required();
  app->add_option("--tokenizer", arguments->tokenizer,
                  "bytes, characters, or the path of a tokenizer (data.train.tokenizer)")
      ->required();
  app->add_option("--output", arguments->output, "The folder to make, or to go on in")->required();
  app->add_option("--kind", arguments->kind,
                  "text or jsonl (default: jsonl where the input's name ends so)")
      ->check(CLI::IsMember({"auto", "text", "jsonl"}));
  app->add_option("--document-separator", arguments->separator,
                  "Between the documents of a text file, with \\n for a new line (default: a file "
                  "is a document)");
  app->add_option("--workers", arguments->workers, "Threads (default: one for each CPU)")
      ->check(CLI::PositiveNumber);
  app->add_option("--shard-tokens", arguments->shard_tokens,
                  "About as many a shard (default: 100000000)")
      ->check(CLI::PositiveNumber);
  app->footer(
      "Stopped, the same command goes on after the last whole shard.\n"
      "Example:\n  trainer data tokenize --input corpus --tokenizer gpt2/tokenizer.json "
      "--output tokens");
  app->callback([arguments, &code] { code = tokenize(*arguments); });
}

}  // namespace

void add_data_command(CLI::App& app, int& code) {
  CLI::App* data = app.add_subcommand("data", "Look at the data, pack it, split it, tokenize it");
  data->require_subcommand(1);
  data->footer("Example:\n  trainer data inspect --config exp.yaml");
  add_inspect(*data, code);
  add_pack(*data, code);
  add_split(*data, code);
  add_tokenize(*data, code);
}

}  // namespace trainer::cli
