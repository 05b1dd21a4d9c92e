#include "data/sources/folder_listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "core/error.h"
#include "data/sources/files.h"
#include "data/sources/parallel.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw Error(Exit::data, printable(path) + ": " + reason);
}

[[noreturn]] void fail_to_read(const fs::path& folder, int error) {
  fail(folder, "cannot be read: " + std::generic_category().message(error));
}

enum class Kind { folder, file, link_to_folder, broken_link, other };

// An open folder, read entry by entry.
class Folder {
 public:
  explicit Folder(fs::path path) : path_(std::move(path)), stream_(::opendir(path_.c_str())) {
    if (!stream_) fail_to_read(path_, errno);
  }

  // The next entry but "." and "..", or nullptr at the end.
  const dirent* next() {
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(stream_.get());
      if (entry == nullptr && errno != 0) fail_to_read(path_, errno);
      if (entry == nullptr) return nullptr;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") return entry;
    }
  }

  // Asks for the entry's status only where the folder itself does not say what it is.
  Kind kind(const dirent& entry) const {
    if (entry.d_type == DT_DIR) return Kind::folder;
    if (entry.d_type == DT_REG) return Kind::file;
    if (entry.d_type == DT_LNK) return kind_of_target(entry);
    if (entry.d_type != DT_UNKNOWN) return Kind::other;
    struct stat status {};
    if (::fstatat(::dirfd(stream_.get()), entry.d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
      return Kind::other;
    if (S_ISLNK(status.st_mode)) return kind_of_target(entry);
    return S_ISDIR(status.st_mode)   ? Kind::folder
           : S_ISREG(status.st_mode) ? Kind::file
                                     : Kind::other;
  }

  Stamp stamp() const { return stamp_of_open(::dirfd(stream_.get())); }

 private:
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };

  Kind kind_of_target(const dirent& entry) const {
    struct stat status {};
    if (::fstatat(::dirfd(stream_.get()), entry.d_name, &status, 0) != 0) {
      // A target that may not be looked at is told of when it is read.
      return errno == EACCES ? Kind::file : Kind::broken_link;
    }
    return S_ISDIR(status.st_mode)   ? Kind::link_to_folder
           : S_ISREG(status.st_mode) ? Kind::file
                                     : Kind::other;
  }

  fs::path path_;
  std::unique_ptr<DIR, Close> stream_;
};

// What looking through one class folder gives.
struct ClassListing {
  TextList files;
  Ignored ignored;
  TextList folders;
  std::vector<Stamp> stamps;
};

class ClassScan {
 public:
  explicit ClassScan(const fs::path& folder) : folder_(folder) {}

  ClassListing run() {
    visit("");
    if (found_.files.empty())
      fail(folder_, "this class folder holds no images; put some there or remove the folder");
    found_.files.sort();
    return std::move(found_);
  }

 private:
  // `relative` is the folder's path in the class folder, with a slash at its end unless empty.
  void visit(const std::string& relative) {
    std::vector<std::string> below;
    {
      const fs::path path =
          relative.empty() ? folder_ : folder_ / relative.substr(0, relative.size() - 1);
      Folder folder(path);
      found_.folders.add(path.native());
      found_.stamps.push_back(folder.stamp());
      while (const dirent* entry = folder.next()) add(folder, *entry, relative, below);
    }
    for (const std::string& name : below) visit(name + "/");
  }

  void add(const Folder& folder, const dirent& entry, const std::string& relative,
           std::vector<std::string>& below) {
    const auto path = [&] { return relative + entry.d_name; };
    const auto absolute = [&] { return (folder_ / path()).string(); };
    if (entry.d_name[0] == '.') return found_.ignored.hidden.add(absolute());
    switch (folder.kind(entry)) {
      case Kind::folder:
        below.push_back(path());
        break;
      case Kind::file:
        if (has_image_extension(entry.d_name))
          found_.files.add(path());
        else
          found_.ignored.other.add(absolute());
        break;
      case Kind::broken_link:
        found_.ignored.links.add(absolute());
        break;
      case Kind::link_to_folder:
      case Kind::other:
        found_.ignored.other.add(absolute());
        break;
    }
  }

  const fs::path& folder_;
  ClassListing found_;
};

// A class folder that is a link to the root or to a folder above it would hold all classes.
bool leads_upwards(const fs::path& link, const fs::path& root) {
  std::error_code failure;
  const fs::path target = fs::canonical(link, failure);
  const fs::path start = fs::canonical(root, failure);
  return !target.empty() &&
         std::mismatch(target.begin(), target.end(), start.begin(), start.end()).first ==
             target.end();
}

void add_classes(const fs::path& root, FolderListing& listing) {
  Folder folder(root);
  listing.folders.add(root.native());
  listing.stamps.push_back(folder.stamp());
  while (const dirent* entry = folder.next()) {
    const fs::path path = root / entry->d_name;
    const Kind kind = folder.kind(*entry);
    const bool link = kind == Kind::link_to_folder;
    if (entry->d_name[0] == '.')
      listing.ignored.hidden.add(path.string());
    else if (kind == Kind::broken_link || (link && leads_upwards(path, root)))
      listing.ignored.links.add(path.string());
    else if (kind == Kind::folder || link)
      listing.classes.emplace_back(entry->d_name);
    else
      listing.ignored.other.add(path.string());
  }
  std::sort(listing.classes.begin(), listing.classes.end());
}

void append(FolderListing& listing, ClassListing&& found) {
  listing.class_begins.push_back(listing.files.size());
  listing.files.append(found.files);
  listing.ignored.add(found.ignored);
  listing.folders.append(found.folders);
  listing.stamps.insert(listing.stamps.end(), found.stamps.begin(), found.stamps.end());
  found = {};
}

bool unchanged(const FolderListing& listing) {
  if (listing.stamps.size() != listing.folders.size()) return false;
  for (std::size_t i = 0; i < listing.stamps.size(); ++i) {
    const Stamp& then = listing.stamps[i];
    if (!settled(then, listing.looked_at) || stamp_of(listing.folders[i]) != then) return false;
  }
  return true;
}

void pack(Packer& packer, const Entries& entries) {
  packer.number(entries.count);
  packer.text(entries.first);
}

Entries unpack_entries(Unpacker& unpacker) {
  Entries entries;
  entries.count = unpacker.number<std::int64_t>();
  entries.first = unpacker.text();
  return entries;
}

FolderListing unpack_listing(std::string_view bytes) {
  Unpacker unpacker(bytes);
  FolderListing listing;
  listing.looked_at = unpacker.number<std::int64_t>();
  listing.classes = unpacker.texts();
  listing.class_begins = unpacker.numbers<std::uint64_t>();
  listing.files = unpacker.text_list();
  listing.folders = unpacker.text_list();
  listing.stamps = unpacker.numbers<Stamp>();
  listing.ignored.hidden = unpack_entries(unpacker);
  listing.ignored.links = unpack_entries(unpacker);
  listing.ignored.other = unpack_entries(unpacker);
  return listing;
}

std::string subject_of(const fs::path& root) { return fs::absolute(root).lexically_normal(); }

constexpr const char* kKind = "image_folder";

}  // namespace

void Entries::add(const std::string& path) { add(Entries{1, path}); }

void Entries::add(const Entries& others) {
  if (others.count == 0) return;
  if (count == 0 || others.first < first) first = others.first;
  count += others.count;
}

void Ignored::add(const Ignored& others) {
  hidden.add(others.hidden);
  links.add(others.links);
  other.add(others.other);
}

std::string Ignored::text() const {
  std::string text;
  if (hidden.count > 0) text += "; ignored " + std::to_string(hidden.count) + " hidden";
  const auto name = [&text](const Entries& entries, const char* what) {
    if (entries.count == 0) return;
    text += "; ignored " + std::to_string(entries.count) + what + printable(entries.first);
  };
  name(other, " that are no images, the first is ");
  name(links, " links that lead nowhere or in a circle, the first is ");
  return text;
}

std::size_t FolderListing::class_of(std::size_t file) const {
  const auto next = std::upper_bound(class_begins.begin(), class_begins.end(), file);
  return static_cast<std::size_t>(next - class_begins.begin()) - 1;
}

FolderListing list_folder(const fs::path& root) {
  FolderListing listing;
  listing.looked_at = now();
  const fs::path folder = fs::absolute(root);
  add_classes(folder, listing);
  if (listing.classes.empty())
    fail(root, "has no class folders; expected " + printable(root / "<class>" / "<image>"));
  std::vector<ClassListing> found(listing.classes.size());
  for_each_in_parallel(found.size(), [&](std::size_t i) {
    const fs::path path = folder / listing.classes[i];
    found[i] = ClassScan(path).run();
  });
  for (ClassListing& each : found) append(listing, std::move(each));
  return listing;
}

std::optional<FolderListing> load_listing(const fs::path& root) {
  const auto bytes = load_index(kKind, subject_of(root));
  if (!bytes) return std::nullopt;
  try {
    FolderListing listing = unpack_listing(*bytes);
    if (unchanged(listing)) return listing;
  } catch (const Unpacker::Damaged&) {
    return std::nullopt;
  }
  return std::nullopt;
}

void save_listing(const fs::path& root, const FolderListing& listing) {
  // A broken link can be mended without a change of its folder.
  if (listing.ignored.links.count > 0) return;
  for (const Stamp& stamp : listing.stamps) {
    if (!settled(stamp, listing.looked_at)) return;
  }
  Packer packer;
  packer.number(listing.looked_at);
  packer.texts(listing.classes);
  packer.numbers(listing.class_begins);
  packer.texts(listing.files);
  packer.texts(listing.folders);
  packer.numbers(listing.stamps);
  pack(packer, listing.ignored.hidden);
  pack(packer, listing.ignored.links);
  pack(packer, listing.ignored.other);
  save_index(kKind, subject_of(root), packer);
}

}  // namespace trainer::data
