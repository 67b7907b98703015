#include "data/graphs/npz_arrays.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace topomask {

std::unique_ptr<io::NpyReader> NpzArrays::open(const std::string& name, size_t dimensions) {
  const auto member = members_.find(name + ".npy");
  if (member == members_.end()) io::fail(origin(), "no array \"", name, "\" in the archive");
  auto array = std::make_unique<io::NpyReader>(file_, member->second, name);
  if (array->header().shape.size() != dimensions) {
    array->refuse("must have ", dimensions == 1 ? "one dimension" : "two dimensions", ", got ",
                  array->header().describe());
  }
  return array;
}

std::vector<int64_t> NpzArrays::integers(const std::string& name, int64_t least, int64_t below) {
  const auto opened = open(name);
  io::NpyReader& array = *opened;
  if (!array.header().integer()) array.refuse("must hold integers, got ", array.header().describe());
  std::vector<int64_t> values(static_cast<size_t>(array.size()));
  array.for_each_integer([&](int64_t index, int64_t value) {
    if (value < least || value >= below) {
      array.refuse("must be from ", least, " to ", below - 1, ", got ", value, " at index ", index);
    }
    values[static_cast<size_t>(index)] = value;
  });
  return values;
}

void NpzArrays::read_numbers(io::NpyReader& array, float* out) {
  const auto store = [&](int64_t index, auto value) {
    const auto wide = static_cast<double>(value);
    if (!(std::abs(wide) <= double{std::numeric_limits<float>::max()})) {
      array.refuse("must be finite in float32, got ", wide, " at index ", index);
    }
    out[index] = static_cast<float>(wide);
  };
  if (array.header().integer()) {
    array.for_each_integer(store);
  } else if (array.header().floating()) {
    array.for_each_float(store);
  } else {
    array.refuse("must hold numbers, got ", array.header().describe());
  }
}

std::vector<float> NpzArrays::numbers(const std::string& name) {
  const auto array = open(name);
  std::vector<float> values(static_cast<size_t>(array->size()));
  read_numbers(*array, values.data());
  return values;
}

at::Tensor NpzArrays::matrix(const std::string& name, int64_t columns) {
  const auto array = open(name, 2);
  const io::NpyHeader& header = array->header();
  if (header.shape[1] != columns) array->refuse("must have ", columns, " columns, got ", header.describe());
  if (header.fortran_order) array->refuse("must be in C order, got Fortran order");
  at::Tensor values = at::empty({header.shape[0], columns});
  read_numbers(*array, values.mutable_data_ptr<float>());
  return values;
}

}  // namespace topomask
