#include "core/paths.h"

#include <stdlib.h>

#include "support/files.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

// Sets a variable of the environment, or takes it away, for a while.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* before = ::getenv(name);
    if (before != nullptr) before_ = before;
    if (value != nullptr)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class CacheFolder : public Temporary {};

TEST_F(CacheFolder, IsMadeWhereTheUserWantsCaches) {
  const Variable cache("XDG_CACHE_HOME", (folder_ / "x").c_str());
  EXPECT_EQ(cache_folder(), folder_ / "x/trainer");
  EXPECT_TRUE(fs::is_directory(folder_ / "x/trainer"));
}

TEST_F(CacheFolder, IsInTheHomeFolderElse) {
  const Variable home("HOME", folder_.c_str());
  write_bytes(folder_ / "file", "");
  const std::string in_file = (folder_ / "file").string();
  for (const char* other : {static_cast<const char*>(nullptr), "", "relative", in_file.c_str()}) {
    const Variable cache("XDG_CACHE_HOME", other);
    EXPECT_EQ(cache_folder(), folder_ / ".cache/trainer");
  }
}

TEST_F(CacheFolder, IsNowhereWhereNeitherCanBeWritten) {
  write_bytes(folder_ / "file", "");
  const Variable cache("XDG_CACHE_HOME", (folder_ / "file").c_str());
  const Variable home("HOME", (folder_ / "file").c_str());
  EXPECT_EQ(cache_folder(), std::nullopt);
}

}  // namespace
}  // namespace trainer
