#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/files.h"
#include "io/npy.h"
#include "topomask/data/graph_options.h"

namespace topomask::testing {

/// Parts of a TU set by name: A, graph_indicator, …
using TuTexts = std::map<std::string, std::string>;

/// A triangle, an edge and a single node.
inline TuTexts small_tu() {
  return {{"A", "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n"},
          {"graph_indicator", "1\n1\n1\n2\n2\n3\n"},
          {"graph_labels", "5\n-1\n5\n"},
          {"node_labels", "7\n3\n3\n7\n7\n9\n"},
          {"node_attributes", "0.5, -1\n1.5, 2\n2.5, 3e2\n3.5, 4\n4.5, 5\n5.5, 6\n"}};
}

inline std::string write_tu(const TemporaryFolder& folder, const TuTexts& texts) {
  for (const auto& [part, text] : texts) write_file(folder / ("small_" + part + ".txt"), text);
  return folder.path().string();
}

inline std::string write_zip(const TemporaryFolder& folder, const TuTexts& texts) {
  const std::string path = folder / "small.zip";
  io::OutputFile file({"test", path});
  io::ZipWriter archive(file);
  for (const auto& [part, text] : texts) archive.add("small/small_" + part + ".txt", "", text);
  archive.finish();
  file.commit();
  return path;
}

/// An archive of arrays.
class NpzFile {
 public:
  explicit NpzFile(std::string path) : path_(std::move(path)) {}

  NpzFile& add(const std::string& name, const std::vector<int64_t>& values) { return add(name, "<i8", values); }
  NpzFile& add(const std::string& name, const std::vector<float>& values) { return add(name, "<f4", values); }

  /// `values` as float16, of this shape: "(2, 5)".
  NpzFile& add_halves(const std::string& name, const std::string& shape, const std::vector<float>& values,
                      const char* type = "<f2") {
    const std::vector<c10::Half> halves(values.begin(), values.end());
    arrays_[name] = io::npy_header(type, shape);
    arrays_[name].append(reinterpret_cast<const char*>(halves.data()), halves.size() * sizeof(c10::Half));
    return *this;
  }
  /// Replaces a part of the bytes of an array.
  NpzFile& replace(const std::string& name, const std::string& from, const std::string& to) {
    std::string& bytes = arrays_.at(name);
    bytes.replace(bytes.find(from), from.size(), to);
    return *this;
  }

  const std::string& write() const {
    io::OutputFile file({"test", path_});
    io::ZipWriter archive(file);
    for (const auto& [name, bytes] : arrays_) archive.add(name + ".npy", "", bytes);
    archive.finish();
    file.commit();
    return path_;
  }

 private:
  template <class T>
  NpzFile& add(const std::string& name, const char* type, const std::vector<T>& values) {
    arrays_[name] = io::npy_header(type, c10::str("(", values.size(), ",)"));
    arrays_[name].append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return *this;
  }

  std::string path_;
  std::map<std::string, std::string> arrays_;
};

}  // namespace topomask::testing
