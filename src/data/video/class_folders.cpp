#include "data/video/class_folders.h"

#include <algorithm>

namespace topomask {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  return fs::is_directory(path);
}

bool in_order(const fs::path& a, const fs::path& b) {
  const std::string x = a.filename().string(), y = b.filename().string();
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0, j = 0;
  while (i < x.size() && j < y.size()) {
    if (is_digit(x[i]) && is_digit(y[j])) {
      while (i < x.size() && x[i] == '0') ++i;
      while (j < y.size() && y[j] == '0') ++j;
      size_t m = i, n = j;
      while (m < x.size() && is_digit(x[m])) ++m;
      while (n < y.size() && is_digit(y[n])) ++n;
      if (m - i != n - j) return m - i < n - j;
      if (const int order = x.compare(i, m - i, y, j, n - j); order != 0) return order < 0;
      i = m;
      j = n;
      continue;
    }
    if (x[i] != y[j]) return x[i] < y[j];
    ++i;
    ++j;
  }
  if (x.size() - i != y.size() - j) return x.size() - i < y.size() - j;
  return x < y;  // they differ in leading zeros alone
}

fs::path test_half(const fs::path& root) {
  for (const char* name : {"val", "test", "validation"}) {
    if (fs::is_directory(root / name)) return root / name;
  }
  return root / "val";
}

}  // namespace

std::vector<fs::path> entries_of(const fs::path& folder, bool (*wanted)(const fs::path&)) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (wanted(entry.path())) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end(), in_order);
  return entries;
}

bool has_extension(const fs::path& path, std::initializer_list<const char*> extensions) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

ClassFolders::ClassFolders(const VideoOptions& options, bool test, bool (*wanted)(const fs::path&),
                           const char* layout) {
  const fs::path root = options.path, train = root / "train";
  half = test ? test_half(root) : train;
  for (const fs::path& folder : {train, half}) {
    TORCH_CHECK(fs::is_directory(folder), "open_videos: ", folder.string(), " is not a folder; ", options.kind,
                " wants ", layout);
  }
  for (const fs::path& folder : entries_of(train, is_folder)) classes.push_back(folder.filename().string());
  for (const fs::path& folder : entries_of(half, is_folder)) {
    const auto place = std::find(classes.begin(), classes.end(), folder.filename().string());
    TORCH_CHECK(place != classes.end(), "open_videos: ", folder.string(), ": there is no such class in ",
                train.string());
    for (const fs::path& member : entries_of(folder, wanted)) members.push_back({member, place - classes.begin()});
  }
}

}  // namespace topomask
