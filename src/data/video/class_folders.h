#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/video/readers.h"

namespace topomask {

/// Names inside a folder for which `wanted` is true, in an order that does not depend on the file system: digits
/// without leading zeros sort as the numbers they are, as frames are often named.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder,
                                              bool (*wanted)(const std::filesystem::path&));

/// Whether the name ends with one of these, such as ".jpg", in upper or lower case.
bool has_extension(const std::filesystem::path& path, std::initializer_list<const char*> extensions);

/// A recording: where it is, and a place in the list of classes.
struct ClassMember {
  std::filesystem::path path;
  int64_t label;
};

/// What lies in train/CLASS (or, for the test half, val/CLASS, test/CLASS or validation/CLASS) of options.path.
struct ClassFolders {
  std::filesystem::path half;
  std::vector<std::string> classes;  ///< the folders in train
  std::vector<ClassMember> members;

  /// `layout` says in an error what is expected: "train/CLASS/CLIP/*.jpg".
  ClassFolders(const VideoOptions& options, bool test, bool (*wanted)(const std::filesystem::path&),
               const char* layout);
};

}  // namespace topomask
