#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_bf16.h>
#include <torch/library.h>

#include <list>
#include <mutex>

#include "core/checks.h"
#include "core/cuda/dispatch.h"
#include "ops/fused_attention/arguments.h"
#include "ops/fused_attention/constant_codes.h"
#include "ops/fused_attention/cuda_kernel.h"
#include "ops/fused_attention/factor_columns.h"
#include "ops/fused_attention/tile_groups.h"
#include "ops/row_layout.h"

// fused_attention on the GPU: layout and launches.

namespace topomask::ops::fused_attention {
namespace {

using at::Tensor;

/// Values of 16 bits are exact in TF32, and their weights may be rounded to it; float32 is, where torch allows TF32.
bool takes_tf32(const Tensor& q) {
  return q.scalar_type() != at::kFloat || at::globalContext().allowTF32CuBLAS();
}

Problem problem_of(const Tensor& q, const Tensor& v, const MaskTiles& mask, const Options& options) {
  const int64_t rank = mask.kind == TileKind::factors ? mask.right.size(2) : 0;
  return {q.scalar_type(), q.size(3), v.size(3), mask.kind, options.weighting, at::kCUDA, rank};
}

/// Whether the factors of the mask become columns of q and k.
bool as_columns(const Problem& problem, const MaskTiles& mask, const Options& options) {
  return takes_columns(problem) && fits_columns(mask, options);
}

/// The mask as kernels read it: where every token is global, M is 1 and there are no values to read.
MaskTiles readable(const MaskTiles& mask, int64_t nodes) {
  return mask.globals == nodes ? MaskTiles{.kind = TileKind::ones} : mask;
}

/// TileGroups on the GPU.
struct TileLists {
  int tile = 0;  // 0: not made yet
  int groups = 0;
  Tensor first, rows, columns;
};

/// What is computed from the codes of a Toeplitz mask, which are copied to the host: once for those of the library's
/// masks, in every call for codes that are an operator's argument, since they may have changed.
struct Codes {
  Tensor given;  // held, so that its address stays its own
  int64_t globals = 0;
  Tensor codes;  // of all nodes
  int window = 0;
  std::vector<int32_t> host;
  std::mutex mutex;  // of the lists, which calls of several threads may share
  TileLists lists;
};

std::shared_ptr<Codes> codes_of(const MaskTiles& mask) {
  constexpr size_t kKept = 32;
  static std::mutex mutex;
  static std::list<std::shared_ptr<Codes>>* const kept = new std::list<std::shared_ptr<Codes>>;  // outlives the GPU
  const std::lock_guard lock(mutex);
  for (auto known = kept->begin(); known != kept->end(); ++known) {
    if ((*known)->given.is_same(mask.index) && (*known)->globals == mask.globals) {
      kept->splice(kept->begin(), *kept, known);
      return kept->front();
    }
  }
  auto made = std::make_shared<Codes>();
  made->given = mask.index;
  made->globals = mask.globals;
  made->codes = at::constant_pad_nd(mask.index, {mask.globals, 0}).contiguous();
  const Tensor host = made->codes.cpu();
  made->host.assign(host.const_data_ptr<int32_t>(), host.const_data_ptr<int32_t>() + host.numel());
  made->window = static_cast<int>(std::min(longest_window(made->host.data(), std::ssize(made->host), 128),
                                           static_cast<int64_t>(cuda::kLongestWindow)));
  if (!ConstantCodes::has(mask.index)) return made;
  kept->push_front(made);
  if (kept->size() > kKept) kept->pop_back();
  return made;
}

TileLists lists_of(Codes& codes, int tile) {
  const std::lock_guard lock(codes.mutex);
  if (codes.lists.tile != tile) {
    const TileGroups groups = equal_tiles(codes.host.data(), std::ssize(codes.host), tile);
    const auto moved = [&](const std::vector<int32_t>& x) { return at::tensor(x, at::kInt).to(codes.codes.device()); };
    codes.lists = {tile, static_cast<int>(groups.first.size()) - 1, moved(groups.first), moved(groups.rows),
                   moved(groups.columns)};
  }
  return codes.lists;
}

template <class T>
cuda::FusedRows<T> rows_of(const Tensor& x) {
  return {cuda::data<T>(x), x.stride(0), x.stride(1), x.stride(2), static_cast<int>(x.size(3))};
}

/// A call with its tensors laid out, as values of T; it holds what the arguments point to.
template <class T>
struct Call {
  Call(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const MaskTiles& given, const Options& options,
       const Tensor& denominator, const Tensor& largest)
      : q(cuda::readable_rows(as(q_in))),
        k(cuda::readable_rows(as(k_in))),
        v(cuda::readable_rows(as(v_in))),
        mask(given) {
    args = {.q = rows_of<const T>(q),
            .k = rows_of<const T>(k),
            .v = rows_of<const T>(v),
            .mask = {.kind = mask.kind,
                     .heads = 1,
                     .nodes = q.size(2),
                     .globals = mask.globals,
                     .length = 0,
                     .values = nullptr},
            .weighting = options.weighting,
            .batch = static_cast<int>(q.size(0)),
            .heads = static_cast<int>(q.size(1)),
            .window = 0,
            .scale = static_cast<float>(options.scale),
            .eps = static_cast<float>(options.eps),
            .denominator = cuda::data<float>(denominator),
            .largest = cuda::data<float>(largest),
            .tf32 = takes_tf32(q_in)};
    if (!has_values(mask.kind)) return;
    values = mask.values.contiguous();
    args.mask.heads = values.size(0);
    args.mask.length = values.numel() / std::max<int64_t>(1, values.size(0));
    args.mask.values = values.const_data_ptr<float>();
    if (mask.kind == TileKind::factors) {
      right = mask.right.contiguous();
      args.mask.right = right.const_data_ptr<float>();
      args.mask.rank = right.size(2);
    }
    if (mask.kind == TileKind::places) {
      index = mask.index.contiguous();
      args.mask.places = index.const_data_ptr<int16_t>();
    }
    if (mask.kind == TileKind::offsets) {
      codes = codes_of(mask);
      args.mask.codes = codes->codes.const_data_ptr<int32_t>();
      args.mask.shift = mask.shift;
      args.window = codes->window;
    }
  }

  static Tensor as(const Tensor& x) { return x.to(std::is_same_v<T, float> ? at::kFloat : x.scalar_type()); }

  Tensor q, k, v, values, right, index;
  MaskTiles mask;
  std::shared_ptr<Codes> codes;
  cuda::FusedArgs<T> args;
};

void check_rows(const Tensor& q, const Tensor& v, const MaskTiles& mask, const Options& options) {
  TORCH_CHECK(supports(problem_of(q, v, mask, options)),
              "fused_attention: q must be Float, Half or BFloat16 and q and v have 1 to ", kMostCudaWidth,
              " columns on cuda, got ", describe(q), " and v ", describe(v));
}

template <class T>
Tensor run_forward(const Tensor& q, const Tensor& k, const Tensor& v, const MaskTiles& mask, const Options& options,
                   const Tensor& denominator, const Tensor& largest) {
  const Call<T> call(q, k, v, mask, options, denominator, largest);
  const Tensor out = empty_rows(call.v.sizes(), call.v.options(), options.nodes_first);
  C10_CUDA_CHECK(cuda::fused_forward(call.args, rows_of<T>(out), c10::cuda::getCurrentCUDAStream()));
  return in_row_layout(out.narrow(3, 0, v.size(3)).to(v.scalar_type()), options.nodes_first);
}

Three forward_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values, const Tensor& right,
                   const Tensor& index, int64_t kind, int64_t shift, int64_t globals, int64_t weighting, double scale,
                   double eps, bool nodes_first) {
  const MaskTiles given = tiles_of(values, right, index, kind, shift, globals);
  const Options options = options_of(weighting, scale, eps, nodes_first);
  check(q, k, v, given, options);
  const MaskTiles mask = readable(given, q.size(2));
  check_rows(q, v, mask, options);
  const c10::cuda::CUDAGuard guard(q.device());
  const auto sums = q.options().dtype(at::kFloat);
  const Tensor denominator = at::empty(q.sizes().slice(0, 3), sums);
  const Tensor largest = options.weighting == Weighting::kernel ? at::empty({0}, sums) : at::empty_like(denominator);
  if (v.numel() == 0) return {in_row_layout(at::zeros_like(v), nodes_first), denominator.zero_(), largest.zero_()};
  const Problem problem = problem_of(q, v, mask, options);
  if (as_columns(problem, mask, options)) {
    const auto [wide_q, wide_k] = with_factor_columns(q, k, mask, scale);
    return {run_forward<__nv_bfloat16>(wide_q, wide_k, v, mask_beside_columns(), options_beside_columns(options),
                                       denominator, largest),
            denominator, largest};
  }
  const auto run = is_native(problem) ? run_forward<__nv_bfloat16> : run_forward<float>;
  return {run(q, k, v, mask, options, denominator, largest), denominator, largest};
}

/// The gradient of the mask's values, in the shape of [H, length].
template <class T>
Tensor mask_gradient(const Call<T>& call, const cuda::FusedGradArgs<T>& grads, const Problem& problem) {
  constexpr int64_t kBlocks = 132;  // a fixed number, on which the order of sums depends
  const auto& args = call.args;
  const int64_t nodes = args.mask.nodes, heads = args.mask.heads;
  const int64_t sharing = static_cast<int64_t>(args.batch) * args.heads / heads;
  cuda::FusedGroups groups{};
  const bool table = call.mask.kind == TileKind::places || call.mask.kind == TileKind::hamming;
  groups.tile = static_cast<int>(gradient_tile(problem, nodes));
  const int64_t blocks = (nodes + groups.tile - 1) / groups.tile, wanted = groups.tile == 128 ? kBlocks : 3 * kBlocks;
  groups.groups = static_cast<int>(blocks * blocks);
  TileLists lists;  // held until the kernels have been launched
  if (call.codes) {
    TORCH_CHECK(nodes <= most_learned_nodes(problem), "fused_attention: q must have at most ",
                most_learned_nodes(problem), " nodes where the offsets of a Toeplitz mask are learned on cuda, got ",
                nodes);
    lists = lists_of(*call.codes, groups.tile);
    groups.groups = lists.groups;
    groups.first = lists.first.const_data_ptr<int32_t>();
    groups.rows = lists.rows.const_data_ptr<int32_t>();
    groups.columns = lists.columns.const_data_ptr<int32_t>();
  }
  const bool matrix = call.mask.kind == TileKind::matrix;
  groups.parts = matrix ? groups.groups : static_cast<int>(std::clamp<int64_t>(wanted / heads, 1, groups.groups));
  groups.splits =
      static_cast<int>(std::clamp<int64_t>(wanted / (groups.parts * heads), 1, std::max<int64_t>(1, sharing)));
  const int64_t copies = matrix ? groups.splits : static_cast<int64_t>(groups.parts) * groups.splits;
  const Tensor sums = at::zeros({copies, heads, args.mask.length}, call.values.options());
  do {
    C10_CUDA_CHECK(
        cuda::fused_mask_gradient(args, grads, groups, cuda::data<float>(sums), c10::cuda::getCurrentCUDAStream()));
    groups.first_place += static_cast<int>(cuda::kLongestTable);
  } while (table && groups.first_place < args.mask.length);
  return sums.sum(0);
}

template <class T>
Five run_backward(const Tensor& grad_in, const Tensor& q, const Tensor& k, const Tensor& v, const MaskTiles& mask,
                  const Options& options, const Three& made, bool learned) {
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const Tensor denominator = std::get<1>(made).contiguous(), largest = std::get<2>(made).contiguous();
  const Call<T> call(q, k, v, mask, options, denominator, largest);
  const Tensor grad = cuda::readable_rows(call.as(grad_in)), out = cuda::readable_rows(call.as(std::get<0>(made)));
  const Tensor inverse = at::empty_like(denominator), delta = at::empty_like(denominator);
  const cuda::FusedGradArgs<T> grads{.out = rows_of<const T>(out),
                                     .grad = rows_of<const T>(grad),
                                     .inverse = cuda::data<float>(inverse),
                                     .delta = cuda::data<float>(delta)};
  const auto like = [](const Tensor& x) { return at::empty(x.sizes(), x.options()); };
  const auto back = [](const Tensor& rows, const Tensor& x) {
    return cuda::from_rows(rows, x.size(3)).to(x.scalar_type());
  };
  const Tensor grad_q = like(call.q), grad_k = like(call.k), grad_v = like(call.v);
  C10_CUDA_CHECK(cuda::fused_statistics(call.args, grads, stream));
  C10_CUDA_CHECK(cuda::fused_query_gradient(call.args, grads, rows_of<T>(grad_q), stream));
  C10_CUDA_CHECK(cuda::fused_key_gradients(call.args, grads, rows_of<T>(grad_k), rows_of<T>(grad_v), stream));
  const auto sums = q.options().dtype(at::kFloat);
  Tensor grad_values = at::empty({0}, sums), grad_right = at::empty({0}, sums);
  if (learned && mask.kind != TileKind::factors) {
    grad_values = mask_gradient(call, grads, problem_of(q, v, mask, options)).view(mask.values.sizes());
  }
  if constexpr (std::is_same_v<T, float>) {
    if (learned && mask.kind == TileKind::factors) {
      grad_values = at::zeros_like(call.values), grad_right = at::zeros_like(call.right);
      C10_CUDA_CHECK(cuda::fused_factor_gradients(call.args, grads, cuda::data<float>(grad_values),
                                                  cuda::data<float>(grad_right), stream));
    }
  }
  return {back(grad_q, q), back(grad_k, k), back(grad_v, v), grad_values, grad_right};
}

Five backward_cuda(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                   const Tensor& right, const Tensor& index, const Tensor& out, const Tensor& denominator,
                   const Tensor& largest, int64_t kind, int64_t shift, int64_t globals, int64_t weighting, double scale,
                   double eps, bool want_mask) {
  const MaskTiles given = tiles_of(values, right, index, kind, shift, globals), mask = readable(given, q.size(2));
  const Options options = options_of(weighting, scale, eps);
  const auto none = [&] { return at::empty({0}, values.options()); };  // one for each: outputs must not share storage
  const bool learned = want_mask && has_values(mask.kind);
  // The gradient of values that nothing was read from.
  const auto no_gradient = [&] { return want_mask && has_values(given.kind) ? at::zeros_like(values) : none(); };
  const auto no_right_gradient = [&] {
    return want_mask && given.kind == TileKind::factors ? at::zeros_like(right) : none();
  };
  if (v.numel() == 0) {
    return {at::zeros_like(q), at::zeros_like(k), at::zeros_like(v), no_gradient(), no_right_gradient()};
  }
  const c10::cuda::CUDAGuard guard(q.device());
  const Problem problem = problem_of(q, v, mask, options);
  if (as_columns(problem, mask, options)) {
    const auto [wide_q, wide_k] = with_factor_columns(q, k, mask, scale);
    const Five wide =
        run_backward<__nv_bfloat16>(grad, wide_q, wide_k, v, mask_beside_columns(), options_beside_columns(options),
                                    {out, denominator, largest}, /*learned=*/false);
    const auto [grad_q, grad_k, grad_left, grad_right] =
        gradients_from_columns(std::get<0>(wide), std::get<1>(wide), mask, q.size(3), scale, learned);
    return {grad_q, grad_k, std::get<2>(wide), grad_left, grad_right};
  }
  const auto run = is_native(problem) ? run_backward<__nv_bfloat16> : run_backward<float>;
  Five result = run(grad, q, k, v, mask, options, {out, denominator, largest}, learned);
  if (mask.kind != given.kind) std::get<3>(result) = no_gradient(), std::get<4>(result) = no_right_gradient();
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CUDA, m) {
  m.impl("fused_attention", forward_cuda);
  m.impl("fused_attention_backward", backward_cuda);
}

}  // namespace topomask::ops::fused_attention
