// `trainer data inspect|pack|split|tokenize`. The header needs no torch (see engine/train.h). All
// return the exit code and throw Error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>

#include "config/experiment.h"

namespace trainer::engine {

struct InspectOptions {
  config::Experiment experiment;  // checked
  bool train = true, val = true;  // which of its sources; val where there is one
  bool headers_only = false;
  bool json = false;  // one JSON object instead of text
  // Where a contact sheet of the first training batch is written: the pixels of step 1 as they are
  // before normalisation, erasing and mixing.
  std::optional<std::filesystem::path> sheet;
};
// Prints what was found; 4 where broken samples or problems of classes are among it.
int inspect_data(const InspectOptions& options);

struct PackDataOptions {
  config::Experiment experiment;
  bool val = false;  // data.val instead of data.train
  std::filesystem::path output;
  std::int64_t shard_bytes = std::int64_t{1} << 30;
  bool overwrite = false;
};
// SIGINT and SIGTERM end it with nothing written.
int pack_data(const PackDataOptions& options);

struct SplitDataOptions {
  config::Experiment experiment;
  double share = 0.2;
  std::filesystem::path train, val;
  std::optional<std::uint64_t> seed;  // absent: the experiment's
};
// Splits data.train.
int split_data(const SplitDataOptions& options);

struct TokenizeDataOptions {
  std::variant<config::TextFiles, config::JsonlFiles> input;  // with their tokenizer
  std::filesystem::path output;
  int workers = 0;  // threads; 0: one for each CPU
  std::int64_t shard_tokens = 100'000'000;
};
// Makes shards of tokens. A signal ends it, and the same call goes on after the last whole shard.
int tokenize_data(const TokenizeDataOptions& options);

inline constexpr const char* kInspectSymbol = "trainer_engine_inspect";
using InspectFunction = int (*)(const InspectOptions&);
inline constexpr const char* kPackSymbol = "trainer_engine_pack";
using PackFunction = int (*)(const PackDataOptions&);
inline constexpr const char* kSplitSymbol = "trainer_engine_split";
using SplitFunction = int (*)(const SplitDataOptions&);
inline constexpr const char* kTokenizeSymbol = "trainer_engine_tokenize";
using TokenizeFunction = int (*)(const TokenizeDataOptions&);

}  // namespace trainer::engine
