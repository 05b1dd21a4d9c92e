// Looks at every sample of a source. No torch here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "data/images/decode.h"

namespace trainer::data {

struct InspectOptions {
  // Of image files only the header: much faster, but damage behind it and equal files are not seen.
  bool headers_only = false;
  DecodeOptions decode;
};

// Called from one thread, now and then, and at the end.
using InspectProgress = std::function<void(std::int64_t done, std::int64_t all)>;

struct Spread {
  std::int64_t least = 0, median = 0, most = 0;  // the median of an even number is the lower one
};

struct Count {
  std::string name;
  std::int64_t samples = 0;
};

// A sample as reports show it: names are escaped and stay one line.
struct NamedSample {
  std::int64_t index = 0;
  std::string name;
  std::string class_name;
};

struct BrokenSample {
  NamedSample sample;
  std::string reason;
};

// A file that is called as another format is.
struct MisnamedSample {
  NamedSample sample;
  std::string format;  // that it really has
};

// Samples with the same bytes, in the order of the sets and of their indices.
struct SameContent {
  struct Member {
    std::string set;
    NamedSample sample;
  };
  std::vector<Member> members;
  bool classes_differ = false;
};

struct Inspection {
  std::string name;    // of the set: train or val
  std::string source;  // Source::describe
  std::int64_t samples = 0;
  std::int64_t bytes = 0;      // of all samples that can be read
  std::vector<Count> classes;  // in the order of their indices
  // Of the samples that are not broken, upright where that is how they are read.
  Spread height, width, pixels;
  std::vector<Count> formats;  // the most frequent first
  std::int64_t turned = 0;     // by EXIF, whether or not that is applied
  bool turns_applied = true;
  std::vector<BrokenSample> broken;      // in the order of the indices
  std::vector<MisnamedSample> misnamed;  // likewise
  std::vector<SameContent> duplicates;   // in the order of their first members
  std::vector<std::uint64_t> contents;   // XXH3 of each sample's bytes; 0 where it is not known
};

// Reads all samples on as many threads as there are CPUs. The result does not depend on them.
// Throws what is not about a sample, such as std::bad_alloc.
Inspection inspect(const std::string& name, const Source& source, const InspectOptions& options,
                   const InspectProgress& progress = {});

// What is in both sets, in the order of the first set's samples. Each set comes with its source.
struct InspectedSet {
  const Source& source;
  const Inspection& inspection;
};
std::vector<SameContent> in_both(const InspectedSet& a, const InspectedSet& b);

}  // namespace trainer::data
