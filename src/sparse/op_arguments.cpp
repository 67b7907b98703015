#include "sparse/op_arguments.h"

#include <ATen/ATen.h>

#include "core/checks.h"
#include "core/simd.h"

namespace topomask {

namespace {

at::Tensor index_tensor(const char* op, const char* name, const at::Tensor& tensor, at::ScalarType dtype,
                        at::Device device) {
  TORCH_CHECK(tensor.dim() == 1 && tensor.scalar_type() == dtype && tensor.device() == device, op, ": ", name,
              " must be a vector of ", dtype, " on ", device, ", got ", describe(tensor));
  return tensor.contiguous();
}

at::Tensor offset_tensor(const char* op, const char* name, const at::Tensor& tensor, int64_t entries,
                         at::Device device) {
  at::Tensor offsets = index_tensor(op, name, tensor, at::kLong, device);
  TORCH_CHECK(offsets.size(0) > 0, op, ": ", name, " must have rows + 1 elements, got ", describe(offsets));
  if (!device.is_cpu()) return offsets;  // looking would wait for the device
  const int64_t* offset = offsets.const_data_ptr<int64_t>();
  TORCH_CHECK(offset[0] == 0 && offset[offsets.size(0) - 1] == entries, op, ": ", name, " must run from 0 to ", entries,
              " (the number of entries), got ", offset[0], " to ", offset[offsets.size(0) - 1]);
  return offsets;
}

}  // namespace

PatternTensors::PatternTensors(const char* op, const at::Tensor& offsets, const at::Tensor& columns)
    : columns(index_tensor(op, "columns", columns, at::kInt, offsets.device())) {
  this->offsets = offset_tensor(op, "offsets", offsets, entries(), offsets.device());
}

PatternTensors::PatternTensors(const char* op, const at::Tensor& offsets, const at::Tensor& columns,
                               const at::Tensor& t_offsets, const at::Tensor& t_columns, const at::Tensor& t_index)
    : PatternTensors(op, offsets, columns) {
  this->t_offsets = offset_tensor(op, "t_offsets", t_offsets, entries(), offsets.device());
  this->t_columns = index_tensor(op, "t_columns", t_columns, at::kInt, offsets.device());
  this->t_index = index_tensor(op, "t_index", t_index, at::kLong, offsets.device());
  TORCH_CHECK(t_columns.size(0) == entries() && t_index.size(0) == entries(), op,
              ": t_columns and t_index must have as many elements as columns, ", entries(), ", got ", t_columns.size(0),
              " and ", t_index.size(0));
}

void PatternTensors::check_device(const char* op, const char* name, const at::Tensor& nodes) const {
  TORCH_CHECK(nodes.device() == offsets.device(), op, ": ", name, " must be where the pattern is, ", offsets.device(),
              ", got ", describe(nodes));
}

void check_nodes(const char* op, const char* name, const at::Tensor& tensor, int64_t nodes) {
  const bool on_gpu = tensor.defined() && tensor.is_cuda();
  TORCH_CHECK(tensor.defined() && (tensor.is_cpu() || on_gpu) &&
                  (is_real(tensor.scalar_type()) || tensor.scalar_type() == at::kBFloat16 ||
                   (on_gpu && tensor.scalar_type() == at::kHalf)),
              op, ": ", name, " must be ",
              on_gpu ? "float64, float32, bfloat16 or float16 on cuda" : "float64, float32 or bfloat16 on cpu",
              ", got ", describe(tensor));
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
              " on ", nodes.device(), " beside ", nodes.scalar_type(), " nodes, got ", describe(values));
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

}  // namespace topomask
