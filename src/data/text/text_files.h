// The input files of text sources and tools.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trainer::data {

// What `path` stands for: the file itself; of a folder the files whose names end with one of
// `extensions` (".txt"), with `deep` those of its folders too; or the files of a folder that match
// a glob (`*`, `?`, in the last part only). Sorted by path, byte by byte; hidden files are left
// out. Throws Error(data) naming the path where there is none.
std::vector<std::filesystem::path> find_files(const std::string& path,
                                              const std::vector<std::string>& extensions,
                                              bool deep);

}  // namespace trainer::data
