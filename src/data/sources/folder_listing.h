// The images in a folder of class folders: path/<class>/.../<image>.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/sources/index_file.h"
#include "data/sources/text_list.h"

namespace trainer::data {

// Some entries of one kind: how many, and the first of them by name.
struct Entries {
  std::int64_t count = 0;
  std::string first;

  void add(const std::string& path);
  void add(const Entries& others);
};

// Entries that are no samples.
struct Ignored {
  Entries hidden;
  Entries links;  // that lead nowhere, in a circle, or back to a folder above them
  Entries other;

  void add(const Ignored& others);
  std::string text() const;  // "; ignored ..." for each kind there is
};

struct FolderListing {
  std::vector<std::string> classes;         // sorted by bytes
  TextList files;                           // relative to their class folders; sorted in each class
  std::vector<std::uint64_t> class_begins;  // of each class in `files`
  Ignored ignored;
  TextList folders;            // the root and all that were looked into, absolute
  std::vector<Stamp> stamps;   // of `folders`
  std::int64_t looked_at = 0;  // `now()` before the first was read

  std::size_t class_of(std::size_t file) const;
};

// Looks through `root` with several threads. Links to class folders and to files are followed;
// links to folders below a class folder are not. Throws Error(data) naming the folder where one
// cannot be read or a class folder holds no image.
FolderListing list_folder(const std::filesystem::path& root);

// The listing of `root` that an earlier run kept, if no folder in it has changed since.
std::optional<FolderListing> load_listing(const std::filesystem::path& root);
// Keeps it for later runs, unless it has broken links or a folder that changed so recently that it
// may be changing still.
void save_listing(const std::filesystem::path& root, const FolderListing& listing);

}  // namespace trainer::data
