#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "core/checks.h"
#include "core/ordered_sums.h"
#include "core/recycled.h"
#include "masks/encodings/table.h"
#include "masks/encodings/table_kernel.h"

namespace topomask {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kGrain = 32768;
constexpr int64_t kMostBlocks = 64;  // of partial sums: memory stays small beside long tables

void check_index(const char* op, const Tensor& index, at::Device device) {
  TORCH_CHECK(index.scalar_type() == at::kShort && index.device() == device, op, ": index must be int16 on ", device,
              ", got ", describe(index));
}

void check_lookup(const Tensor& table, const Tensor& index) {
  TORCH_CHECK(table.dim() == 2 && table.size(1) >= 1 && is_real(table.scalar_type()),
              "table_lookup: table must be float32 or float64 [H, K], K >= 1, got ", describe(table));
  check_index("table_lookup", index, table.device());
}

void check_sums(const Tensor& grad, const Tensor& index, int64_t size) {
  TORCH_CHECK(is_real(grad.scalar_type()) && grad.dim() == index.dim() + 1 && grad.sizes().slice(1) == index.sizes(),
              "table_sums: grad must be float32 or float64, [H, ...] with the shape of index ", index.sizes(),
              " behind the heads, got ", describe(grad));
  check_index("table_sums", index, grad.device());
  TORCH_CHECK(size >= 1, "table_sums: size must be >= 1, got ", size);
}

/// [H, …] with the shape of the index behind the heads.
template <class Size>
std::vector<Size> with_heads(Size heads, c10::ArrayRef<Size> shape) {
  std::vector<Size> result{std::move(heads)};
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

Tensor table_lookup_cpu(const Tensor& table, const Tensor& index) {
  check_lookup(table, index);
  const Tensor rows = table.contiguous(), places = index.contiguous();
  const Tensor out = recycled_empty(with_heads(table.size(0), index.sizes()), table.options());
  const int64_t count = index.numel(), size = table.size(1);
  AT_DISPATCH_FLOATING_TYPES(table.scalar_type(), "table_lookup", [&] {
    const auto* place = places.const_data_ptr<int16_t>();
    const auto* row = rows.const_data_ptr<scalar_t>();
    auto* to = out.mutable_data_ptr<scalar_t>();
    for (int64_t h = 0; h < table.size(0); ++h) {
      at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
        table_lookup_range(place, row + h * size, size, to + h * count, begin, end);
      });
    }
  });
  return out;
}

Tensor table_sums_cpu(const Tensor& grad, const Tensor& index, int64_t size) {
  check_sums(grad, index, size);
  const Tensor values = grad.contiguous(), places = index.contiguous();
  const int64_t heads = grad.size(0), count = index.numel();
  // Blocks by size alone, so that sums do not depend on the number of threads.
  const int64_t block = std::max(kGrain, (count + kMostBlocks - 1) / kMostBlocks), blocks = (count + block - 1) / block;
  const Tensor result = at::empty({heads, size}, grad.options());
  for (int64_t h = 0; h < heads; ++h) {
    const Tensor partial = at::zeros({blocks, kTableLanes, size}, at::kDouble);
    AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "table_sums", [&] {
      const auto* place = places.const_data_ptr<int16_t>();
      const auto* from = values.const_data_ptr<scalar_t>() + h * count;
      auto* sums = partial.mutable_data_ptr<double>();
      at::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b) {
          table_sums_range(place, from, size, sums + b * kTableLanes * size, b * block,
                           std::min(count, (b + 1) * block));
        }
      });
    });
    result[h].copy_(first_sums(partial.flatten(0, 1)));
  }
  return result;
}

/// On the GPU by tensor operations; an index behind the end is the last one, as in the kernels.
Tensor places_of(const Tensor& index, int64_t size) {
  return index.reshape(-1).to(at::kLong).bitwise_and_(0xFFFF).clamp_max_(size - 1);
}

Tensor table_lookup_cuda(const Tensor& table, const Tensor& index) {
  check_lookup(table, index);
  return table.index_select(1, places_of(index, table.size(1))).view(with_heads(table.size(0), index.sizes()));
}

Tensor table_sums_cuda(const Tensor& grad, const Tensor& index, int64_t size) {
  check_sums(grad, index, size);
  const Tensor sums = at::zeros({grad.size(0), size}, grad.options().dtype(at::kDouble));
  return sums.index_add(1, places_of(index, size), grad.reshape({grad.size(0), -1}).to(at::kDouble))
      .to(grad.scalar_type());
}

Tensor table_lookup_meta(const Tensor& table, const Tensor& index) {
  return at::empty_symint(with_heads(table.sym_size(0), index.sym_sizes()), table.options());
}

Tensor table_sums_meta(const Tensor& grad, const Tensor&, c10::SymInt size) {
  return at::empty_symint({grad.sym_size(0), std::move(size)}, grad.options());
}

Tensor call_lookup(const Tensor& table, const Tensor& index) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("topomask::table_lookup", "")
                             .typed<Tensor(const Tensor&, const Tensor&)>();
  return op.call(table, index);
}

Tensor call_sums(const Tensor& grad, const Tensor& index, c10::SymInt size) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("topomask::table_sums", "")
                             .typed<Tensor(const Tensor&, const Tensor&, c10::SymInt)>();
  return op.call(grad, index, std::move(size));
}

struct TableLookup : torch::autograd::Function<TableLookup> {
  static Tensor forward(AutogradContext* ctx, const Tensor& table, const Tensor& index) {
    const at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({index});
    ctx->saved_data["size"] = table.sym_size(1);
    return call_lookup(table, index);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {call_sums(grads[0], ctx->get_saved_variables()[0], ctx->saved_data["size"].toSymInt()), {}};
  }
};

struct TableSums : torch::autograd::Function<TableSums> {
  static Tensor forward(AutogradContext* ctx, const Tensor& grad, const Tensor& index, const c10::SymInt& size) {
    const at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({index});
    return call_sums(grad, index, size);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {call_lookup(grads[0], ctx->get_saved_variables()[0]), {}, {}};
  }
};

Tensor table_lookup_autograd(const Tensor& table, const Tensor& index) {
  return TableLookup::apply(table, index);
}

Tensor table_sums_autograd(const Tensor& grad, const Tensor& index, c10::SymInt size) {
  return TableSums::apply(grad, index, size);
}

}  // namespace

at::Tensor table_lookup(const at::Tensor& table, const at::Tensor& index) {
  return table.dim() == 1 ? call_lookup(table.unsqueeze(0), index).squeeze(0) : call_lookup(table, index);
}

at::Tensor table_sums(const at::Tensor& grad, const at::Tensor& index, int64_t size) {
  return call_sums(grad, index, size);
}

}  // namespace topomask

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  m.def("table_lookup(Tensor table, Tensor index) -> Tensor");
  m.def("table_sums(Tensor grad, Tensor index, SymInt size) -> Tensor");
}

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("table_lookup", topomask::table_lookup_cpu);
  m.impl("table_sums", topomask::table_sums_cpu);
}

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("table_lookup", topomask::table_lookup_cuda);
  m.impl("table_sums", topomask::table_sums_cuda);
}

TORCH_LIBRARY_IMPL(topomask, Meta, m) {
  m.impl("table_lookup", topomask::table_lookup_meta);
  m.impl("table_sums", topomask::table_sums_meta);
}

TORCH_LIBRARY_IMPL(topomask, Autograd, m) {
  m.impl("table_lookup", topomask::table_lookup_autograd);
  m.impl("table_sums", topomask::table_sums_autograd);
}
