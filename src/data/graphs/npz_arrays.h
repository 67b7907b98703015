#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/graphs/readers.h"
#include "io/npy.h"

namespace topomask {

/// The arrays of a NumPy archive, each held against the size of its member before memory is taken.
class NpzArrays {
 public:
  /// `op` starts the message of errors.
  explicit NpzArrays(const std::string& path, const char* op = kOpenGraphs)
      : file_({op, path}), members_(io::read_zip_directory(file_)) {}

  const io::Origin& origin() const { return file_.origin(); }
  bool has(const std::string& name) const { return members_.contains(name + ".npy"); }

  /// Integers from `least` to below `below`, of an array of one dimension.
  std::vector<int64_t> integers(const std::string& name, int64_t least, int64_t below);
  /// Finite numbers, of an array of integers too.
  std::vector<float> numbers(const std::string& name);
  /// Finite numbers of an array [rows, columns] in C order: float32, on the CPU.
  at::Tensor matrix(const std::string& name, int64_t columns);

  template <typename... Args>
  [[noreturn]] void refuse(const std::string& name, const Args&... args) const {
    io::fail(origin(), "array \"", name, "\": ", args...);
  }

 private:
  std::unique_ptr<io::NpyReader> open(const std::string& name, size_t dimensions = 1);
  void read_numbers(io::NpyReader& array, float* out);

  io::InputFile file_;
  std::map<std::string, io::ZipMember> members_;
};

}  // namespace topomask
