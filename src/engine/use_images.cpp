// `trainer predict --input`.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "data/sources/files.h"
#include "data/sources/sources.h"
#include "engine/failures.h"
#include "engine/opened_data.h"
#include "engine/samples.h"
#include "engine/use.h"
#include "engine/use_checkpoint.h"
#include "precision/precision.h"

namespace trainer::engine {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

void add_folder(const fs::path& folder, std::vector<fs::path>& files) {
  const std::size_t before = files.size();
  for (auto entry = fs::recursive_directory_iterator(
           folder, fs::directory_options::follow_directory_symlink);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (is_hidden(entry->path())) {
      if (entry->is_directory()) entry.disable_recursion_pending();
    } else if (entry->is_regular_file() &&
               data::has_image_extension(entry->path().filename().native())) {
      files.push_back(entry->path());
    }
  }
  if (files.size() == before)
    throw Error(Exit::data, "--input " + data::printable(folder) + ": there is no image in it");
}

// Sorted by path, each once.
std::vector<fs::path> list_files(const std::vector<fs::path>& inputs) {
  std::vector<fs::path> files;
  for (const fs::path& input : inputs) {
    try {
      if (!fs::exists(input)) {
        throw Error(Exit::data,
                    "--input " + data::printable(input) + ": there is no such file or folder");
      }
      if (fs::is_directory(input))
        add_folder(input, files);
      else
        files.push_back(input);
    } catch (const fs::filesystem_error& failure) {
      throw Error(Exit::data, "--input " + data::printable(input) +
                                  " cannot be listed: " + failure.code().message());
    }
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

// Image files of no known class.
class ListedFiles : public data::FileSource {
 public:
  explicit ListedFiles(std::vector<fs::path> files) : files_(std::move(files)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  const std::vector<std::string>& class_names() const override { return no_names_; }
  std::int64_t classes() const override { return 1; }
  bool encoded() const override { return true; }
  int channels() const override { return 3; }
  data::Raw fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const override {
    try {
      data::read_file(file(index).string(), buffer);
    } catch (const Error& failure) {
      throw Error(failure.code(), sample_name(index) + ": " + failure.what());
    }
    return {.bytes = buffer};
  }
  std::int64_t label(std::int64_t /*index*/) const override { return 0; }
  fs::path file(std::int64_t index) const override {
    return files_[static_cast<std::size_t>(index)];
  }
  std::string sample_name(std::int64_t index) const override {
    return data::printable(file(index));
  }
  std::string describe() const override { return std::to_string(size()) + " files"; }
  std::uint64_t fingerprint() const override { return 0; }

 private:
  std::vector<fs::path> files_;
  std::vector<std::string> no_names_;
};

// As the run looks at the images that it evaluates.
OpenedData open_files(const config::Experiment& experiment, std::vector<fs::path> files) {
  const config::Source& config = experiment.data.val ? *experiment.data.val : experiment.data.train;
  const auto channels = static_cast<int>(channels_of(config));
  OpenedData opened;
  opened.source = std::make_unique<ListedFiles>(std::move(files));
  opened.pipeline = std::make_unique<data::Pipeline>(
      without_augmentation(config::images_of(config)->transforms), channels);
  opened.samples.decode = data::decode_options(config, channels);
  opened.samples.seed = experiment.seed;
  opened.samples.augment = false;
  return opened;
}

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

// Nine digits give a float32 back to the bit.
std::string number(float value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", static_cast<double>(value));
  return text.data();
}

// CSV to a file, which appears when it is whole, or to standard output.
class Table {
 public:
  explicit Table(const std::optional<fs::path>& path) : path_(path) {
    if (!path_) return;
    temporary_ = path_->string() + ".tmp";
    file_ = std::fopen(temporary_.c_str(), "wb");
    if (file_ == nullptr) fail();
  }
  ~Table() {
    if (path_ && file_ != nullptr) {
      std::fclose(file_);
      std::remove(temporary_.c_str());
    }
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  void line(const std::vector<std::string>& fields) {
    std::string text;
    for (const std::string& field : fields) text += (text.empty() ? "" : ",") + quoted(field);
    text += '\n';
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail();
  }
  void finish() {
    if (std::fflush(file_) != 0) fail();
    if (!path_) return;
    const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
    if (!closed || std::rename(temporary_.c_str(), path_->c_str()) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(Exit::storage, (path_ ? data::printable(*path_) : std::string("standard output")) +
                                   " cannot be written: " + std::strerror(errno));
  }

  std::optional<fs::path> path_;
  std::string temporary_;
  std::FILE* file_ = stdout;
};

class ImagePrediction {
 public:
  ImagePrediction(const PredictImagesOptions& options, const SavedRun& run, at::Device device)
      : run_(run), device_(device), names_(run.class_names()), model_(make_model(run, device)) {
    for (auto i = static_cast<std::int64_t>(names_.size()); i < run.outputs(); ++i)
      names_.push_back(std::to_string(i));
    if (options.top > 0) top_ = std::min(options.top, run.outputs());
  }

  void write_head(Table& table) const {
    std::vector<std::string> fields{"path", "class", "probability"};
    for (std::int64_t rank = 2; rank <= top_; ++rank) {
      fields.push_back("class_" + std::to_string(rank));
      fields.push_back("probability_" + std::to_string(rank));
    }
    if (top_ == 0) fields.insert(fields.end(), names_.begin(), names_.end());
    table.line(fields);
  }

  // Returns how many files could not be used.
  std::int64_t run(const ImageSamples& samples, Table& table) {
    const at::NoGradGuard no_grad;
    config::Loader loader = run_.experiment.data.loader;
    loader.on_bad_sample = config::BadSample::skip;
    const data::Sampler sampler(samples.size(), run_.experiment.batch.evaluate.value(),
                                /*drop_last=*/false, /*shuffle=*/false, /*seed=*/0);
    require_input(run_, samples.input_shape(sampler, loader), "the images");
    const auto feed =
        samples.stream(sampler, loader, feed_options(run_, device_),
                       {0, sampler.steps_per_epoch(), /*evaluation=*/true, /*leave_jpeg=*/false});
    std::int64_t bad = 0;
    while (const data::StepBatch* batch = feed->next()) bad += take(*batch, samples, table);
    return bad;
  }

 private:
  std::int64_t take(const data::StepBatch& batch, const ImageSamples& samples, Table& table) {
    std::set<std::int64_t> bad;
    for (const data::BadSample& sample : batch.bad()) {
      bad.insert(sample.index);
      log::warning("left out " + sample.reason);
    }
    if (batch.size() == 0) return static_cast<std::int64_t>(bad.size());
    const at::Tensor probabilities = probabilities_of(batch);
    std::int64_t row = 0;
    const data::Range range = batch.place().share;
    for (std::int64_t index = range.begin; index < range.end; ++index) {
      if (bad.contains(index)) continue;
      write_row(samples, index, probabilities[row++], table);
    }
    return static_cast<std::int64_t>(bad.size());
  }

  // float32 [size, classes] on the CPU.
  at::Tensor probabilities_of(const data::StepBatch& batch) {
    const precision::Untuned untuned(true);
    const precision::Scope autocast(run_.experiment.precision, device_);
    const at::Tensor logits = model_->forward(batch.micro(0, batch.size())).logits;
    return at::softmax(logits.to(at::kFloat), 1).cpu().contiguous();
  }

  void write_row(const ImageSamples& samples, std::int64_t index, const at::Tensor& probabilities,
                 Table& table) const {
    const auto& source = static_cast<const ListedFiles&>(*samples.opened().source);
    std::vector<std::string> fields{source.file(index).string()};
    const auto [values, classes] = at::topk(probabilities, std::max<std::int64_t>(1, top_));
    for (std::int64_t rank = 0; rank < values.size(0); ++rank) {
      fields.push_back(
          names_[static_cast<std::size_t>(classes.const_data_ptr<std::int64_t>()[rank])]);
      fields.push_back(number(values.const_data_ptr<float>()[rank]));
    }
    if (top_ == 0) {
      const float* all = probabilities.const_data_ptr<float>();
      for (std::int64_t i = 0; i < probabilities.size(0); ++i) fields.push_back(number(all[i]));
    }
    table.line(fields);
  }

  const SavedRun& run_;
  at::Device device_;
  std::vector<std::string> names_;
  std::unique_ptr<models::Model> model_;
  std::int64_t top_ = 0;
};

int predict_checked(const PredictImagesOptions& options) {
  const SavedRun run = open_saved_run(options.checkpoint);
  if (run.is_language_model()) {
    throw Error(Exit::usage,
                "the checkpoint is of a language model, which reads no images: give it text with "
                "--prompt instead of --input");
  }
  std::vector<fs::path> files = list_files(options.inputs);
  const at::Device device = start_using(run.experiment);
  const ImageSamples samples(open_files(run.experiment, std::move(files)));
  ImagePrediction prediction(options, run, device);
  Table table(options.output);
  prediction.write_head(table);
  const std::int64_t bad = prediction.run(samples, table);
  table.finish();
  log::info("predicted " + std::to_string(samples.size() - bad) + " of " +
            std::to_string(samples.size()) + " files" +
            (bad > 0 ? "; the others could not be used" : ""));
  return static_cast<int>(bad > 0 ? Exit::data : Exit::done);
}

}  // namespace

int predict_images(const PredictImagesOptions& options) {
  return with_own_failures([&options] { return predict_checked(options); });
}

}  // namespace trainer::engine
