#include "ops/pattern.h"

#include <ATen/ATen.h>

#include "core/checks.h"
#include "core/simd.h"

namespace topomask::ops {

namespace {

/// What stands where in a list, for errors.
constexpr const char* kParts[] = {"offsets", "columns", "t_offsets", "t_columns", "t_index", "tiles", "t_tiles"};

/// A pattern as it is being checked.
struct Given {
  const char* op;
  const char* name;
  at::TensorList tensors;

  at::Tensor index(size_t part, at::ScalarType dtype) const {
    const at::Tensor& tensor = tensors[part];
    const at::Device device = tensors[0].device();
    TORCH_CHECK(tensor.dim() == 1 && tensor.scalar_type() == dtype && tensor.device() == device, op, ": ", kParts[part],
                " of ", name, " must be a vector of ", dtype, " on ", device, ", got ", describe(tensor));
    return tensor.contiguous();
  }

  at::Tensor offsets(size_t part, int64_t entries) const {
    at::Tensor checked = index(part, at::kLong);
    TORCH_CHECK(checked.size(0) > 0, op, ": ", kParts[part], " of ", name, " must have rows + 1 elements, got ",
                describe(checked));
    if (!checked.is_cpu()) return checked;  // looking would wait for the device
    const int64_t* offset = checked.const_data_ptr<int64_t>();
    const int64_t last = offset[checked.size(0) - 1];
    TORCH_CHECK(offset[0] == 0 && last == entries, op, ": ", kParts[part], " of ", name, " must run from 0 to ",
                entries, " (the number of entries), got ", offset[0], " to ", last);
    return checked;
  }
};

}  // namespace

PatternTensors::PatternTensors(const char* op, const char* name, at::TensorList pattern, size_t wanted) {
  const size_t count = pattern.size();
  TORCH_CHECK(count >= wanted && (count == kRows || count == kBoth || count == kTiled), op, ": ", name,
              " must be a list of ", wanted,
              " tensors or more (offsets, columns; t_offsets, t_columns, t_index; tiles, t_tiles), got ", count);
  const Given given{op, name, pattern};
  columns = given.index(1, at::kInt);
  offsets = given.offsets(0, entries());
  if (wanted == kRows) return;
  t_offsets = given.offsets(2, entries());
  t_columns = given.index(3, at::kInt);
  t_index = given.index(4, at::kLong);
  TORCH_CHECK(t_columns.size(0) == entries() && t_index.size(0) == entries(), op, ": t_columns and t_index of ", name,
              " must have as many elements as columns, ", entries(), ", got ", t_columns.size(0), " and ",
              t_index.size(0));
  if (count < kTiled) return;
  tiles = given.index(5, at::kInt);
  t_tiles = given.index(6, at::kInt);
}

void PatternTensors::check_device(const char* op, const char* name, const at::Tensor& nodes) const {
  TORCH_CHECK(nodes.device() == offsets.device(), op, ": ", name, " must be where the pattern is, ", offsets.device(),
              ", got ", describe(nodes));
}

void check_nodes(const char* op, const char* name, const at::Tensor& tensor, int64_t nodes) {
  const at::DeviceType device = tensor.defined() ? tensor.device().type() : at::kCPU;
  TORCH_CHECK(tensor.defined() && is_node_dtype(tensor.scalar_type(), device), op, ": ", name, " must be ",
              node_dtypes(device), ", got ", describe(tensor));
  TORCH_CHECK(tensor.dim() == 4 && (nodes < 0 || tensor.size(2) == nodes), op, ": ", name, " must be [B, H, ",
              nodes < 0 ? "N" : std::to_string(nodes), ", C], got ", describe(tensor));
}

void check_like(const char* op, const char* name, const at::Tensor& tensor, const char* like_name,
                const at::Tensor& like) {
  TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), op, ": ", name, " must have the dtype of ", like_name, ", ",
              like.scalar_type(), ", got ", describe(tensor));
  TORCH_CHECK(tensor.device() == like.device(), op, ": ", name, " must be where ", like_name, " is, ", like.device(),
              ", got ", describe(tensor));
  TORCH_CHECK(tensor.size(0) == like.size(0) && tensor.size(1) == like.size(1), op, ": ", name,
              " must have the batch and heads of ", like_name, ", ", describe(like), ", got ", describe(tensor));
}

void check_values(const char* op, const char* name, const at::Tensor& values, int64_t entries,
                  const at::Tensor& nodes) {
  const at::ScalarType dtype = accumulation_type(nodes.scalar_type());
  TORCH_CHECK(values.scalar_type() == dtype && values.device() == nodes.device(), op, ": ", name, " must be ", dtype,
              " on ", nodes.device(), " for nodes in ", nodes.scalar_type(), ", got ", describe(values));
  const int64_t heads = nodes.size(1);
  TORCH_CHECK(values.dim() == 2 && (values.size(0) == 1 || values.size(0) == heads) && values.size(1) == entries, op,
              ": ", name, " must be [1 or H = ", heads, ", entries = ", entries, "], got ", describe(values));
}

int64_t padded_width(int64_t width) {
  return (width + kWidthUnit - 1) / kWidthUnit * kWidthUnit;
}

at::Tensor to_kernel_layout(const at::Tensor& tensor) {
  const at::ScalarType dtype = accumulation_type(tensor.scalar_type());
  const int64_t width = tensor.size(3), padded = padded_width(width);
  if (padded == width) return tensor.to(dtype).contiguous();
  at::Tensor result =
      at::empty({tensor.size(0), tensor.size(1), tensor.size(2), padded}, tensor.options().dtype(dtype));
  result.narrow(3, 0, width).copy_(tensor);
  result.narrow(3, width, padded - width).zero_();
  return result;
}

at::Tensor from_kernel_layout(const at::Tensor& tensor, int64_t width, at::ScalarType dtype) {
  return tensor.narrow(3, 0, width).to(dtype).contiguous();
}

}  // namespace topomask::ops
