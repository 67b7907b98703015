#include <ATen/ATen.h>
#include <torch/library.h>

#include <limits>

#include "core/checks.h"
#include "core/library_tasks.h"
#include "ops/fused_attention/arguments.h"
#include "ops/fused_attention/cpu_kernel.h"
#include "ops/fused_attention/cpu_mask.h"
#include "ops/row_layout.h"

// A task takes a block of rows and steps through the columns: scores by a matrix product, weights in the cache, sums by
// another product. How the work is cut depends on the sizes alone.

namespace topomask::ops::fused_attention {
namespace {

using at::Tensor;

int64_t blocks_of(int64_t length, int64_t block) {
  return (length + block - 1) / block;
}

/// A row of a causal mask sees no column after itself, unless it is the row of a global token.
int64_t columns_seen(const MaskTiles& mask, const Options& options, int64_t row, int64_t rows, int64_t nodes) {
  const bool nothing_behind = mask.kind == TileKind::causal && options.weighting != Weighting::additive;
  return nothing_behind && row >= mask.globals ? std::min(nodes, row + rows) : nodes;
}

Tensor tile_room(const Tensor& like, int64_t rows) {
  return at::empty({rows, kTileColumns}, like.options());
}

/// The rows of a task: many, as long as there are tasks for the threads of most machines.
int64_t rows_at_once(int64_t slices, int64_t nodes) {
  constexpr int64_t kTasks = 32;
  return slices * blocks_of(nodes, kMostTileRows) >= kTasks ? kMostTileRows : kTileRows;
}

Tensor part_of(const Tensor& room, const TileRange& range) {
  return room.narrow(0, 0, range.rows).narrow(1, 0, range.columns);
}

template <class T>
T clamped_denominator(double d, const Options& options) {
  const bool free = options.weighting == Weighting::additive || std::abs(d) >= options.eps;
  return static_cast<T>(free ? d : d < 0 ? -options.eps : options.eps);
}

template <class T>
void run_forward(const Tensor& q, const Tensor& k, const Tensor& v, const MaskTiles& mask, const Options& options,
                 const Tensor& out, const Tensor& denominator, const Tensor& largest) {
  const int64_t heads = q.size(1), nodes = q.size(2), width = v.size(3);
  const int64_t block = rows_at_once(q.size(0) * heads, nodes), blocks = blocks_of(nodes, block);
  const bool softmax = options.weighting != Weighting::kernel;
  const TileSource<T> source(mask, nodes);
  for_library_tasks(q.size(0) * heads * blocks, 1, [&](int64_t begin, int64_t end) {
    MaskRows<T> rows_of_mask(source);
    const Tensor room = tile_room(q, block);
    std::vector<double> total(block);
    std::vector<T> most(block);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t slice = task / blocks, b = slice / heads, h = slice % heads, row = task % blocks * block;
      const int64_t rows = std::min(block, nodes - row), seen = columns_seen(mask, options, row, rows, nodes);
      const Tensor qs = q[b][h].narrow(0, row, rows), ks = k[b][h], vs = v[b][h];
      Tensor sums = out[b][h].narrow(0, row, rows);
      T* sum = sums.mutable_data_ptr<T>();
      std::fill(total.begin(), total.end(), 0.0);
      std::fill(most.begin(), most.end(), -std::numeric_limits<T>::infinity());
      for (int64_t column = 0; column < seen; column += kTileColumns) {
        const TileRange range{row, rows, column, std::min(kTileColumns, seen - column)};
        Tensor scores = part_of(room, range);
        at::mm_out(scores, qs, ks.narrow(0, column, range.columns).t());
        rows_of_mask.enter(h, range);
        for (int64_t i = 0; i < rows; ++i) {
          T keep = 1;
          weigh_row(WeighArgs<T>{room.mutable_data_ptr<T>() + i * kTileColumns, rows_of_mask.row(i),
                                 static_cast<T>(options.scale), options.weighting, &total[i], &most[i], &keep},
                    0, range.columns);
          if (keep != 1 && column > 0) {
            for (int64_t c = 0; c < width; ++c) sum[i * width + c] *= keep;
          }
        }
        if (column == 0) {
          at::mm_out(sums, scores, vs.narrow(0, column, range.columns));
        } else {
          sums.addmm_(scores, vs.narrow(0, column, range.columns));
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        const T divisor = clamped_denominator<T>(total[i], options);
        for (int64_t c = 0; c < width; ++c) sum[i * width + c] /= divisor;
        denominator.mutable_data_ptr<T>()[slice * nodes + row + i] = static_cast<T>(total[i]);
        if (softmax) largest.mutable_data_ptr<T>()[slice * nodes + row + i] = std::isinf(most[i]) ? T(0) : most[i];
      }
    }
  });
}

Three forward_cpu(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const Tensor& values, const Tensor& right,
                  const Tensor& index, int64_t kind, int64_t shift, int64_t globals, int64_t weighting, double scale,
                  double eps, bool nodes_first) {
  const MaskTiles mask = tiles_of(values, right, index, kind, shift, globals);
  const Options options = options_of(weighting, scale, eps);
  check(q_in, k_in, v_in, mask, options);
  const at::ScalarType type = accumulation_type(q_in.scalar_type());
  const Tensor q = q_in.to(type), k = k_in.to(type), v = v_in.to(type);
  const Tensor out = at::empty(v.sizes(), v.options()), denominator = at::empty(q.sizes().slice(0, 3), q.options());
  const Tensor largest =
      options.weighting == Weighting::kernel ? at::empty({0}, q.options()) : at::empty_like(denominator);
  if (out.numel() > 0) {
    if (type == at::kDouble) {
      run_forward<double>(q, k, v, mask, options, out, denominator, largest);
    } else {
      run_forward<float>(q, k, v, mask, options, out, denominator, largest);
    }
  } else {
    out.zero_(), denominator.zero_(), largest.zero_();
  }
  return {in_row_layout(out.to(v_in.scalar_type()), nodes_first), denominator, largest};
}

/// Where a backward pass puts its results: of what several tasks add to, each part has its own.
struct Gradients {
  Tensor q, k, v, values, right;
};

/// How the backward pass is cut into tasks for each head of the mask: `groups` of the slices that share it, times
/// `parts` of their rows. Each part has its own sums for the keys and values, each task its own for the mask.
struct BackwardTasks {
  int64_t groups, parts;
};

template <class T>
BackwardTasks backward_tasks(const TileSource<T>& source, const Tensor& q) {
  constexpr int64_t kTasks = 16;  // enough for the threads of most machines, whatever their number here
  const int64_t wanted = std::max<int64_t>(1, kTasks / source.heads), sharing = q.size(0) * q.size(1) / source.heads;
  // The gradient of a matrix is as large as the matrix: tasks add to different rows of one.
  const int64_t groups = source.kind == TileKind::matrix ? 1 : std::clamp<int64_t>(sharing, 1, wanted);
  return {groups, std::clamp<int64_t>(wanted / groups, 1, std::max<int64_t>(1, blocks_of(q.size(2), kTileRows)))};
}

template <class T>
void run_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const MaskTiles& mask,
                  const Options& options, const Tensor& delta, const Three& made, const BackwardTasks& cut,
                  const TileSource<T>& source, const Gradients& to, bool want_mask) {
  const int64_t heads = q.size(1), nodes = q.size(2), slices = q.size(0) * heads;
  const int64_t blocks = blocks_of(nodes, kTileRows), sharing = slices / source.heads;
  const T* denominator = std::get<1>(made).template const_data_ptr<T>();
  const T* largest = options.weighting == Weighting::kernel ? nullptr : std::get<2>(made).template const_data_ptr<T>();
  const auto [groups, parts] = cut;
  for_library_tasks(source.heads * groups * parts, 1, [&, groups = groups, parts = parts](int64_t begin, int64_t end) {
    MaskRows<T> rows_of_mask(source);
    const Tensor score_room = tile_room(q, kTileRows), grad_room = tile_room(q, kTileRows),
                 mask_room = want_mask ? tile_room(q, kTileRows) : Tensor();
    for (int64_t task = begin; task < end; ++task) {
      const int64_t mask_head = task / (groups * parts), own = task % (groups * parts), group = own / parts,
                    part = own % parts;
      const bool whole = source.kind == TileKind::matrix;
      MaskSums<T> mask_sums(source, want_mask ? to.values[whole ? 0 : own][mask_head] : Tensor(),
                            want_mask && source.kind == TileKind::factors ? to.right[own][mask_head] : Tensor());
      for (int64_t s = sharing * group / groups; s < sharing * (group + 1) / groups; ++s) {
        const int64_t slice = source.heads == 1 ? s : s * heads + mask_head, b = slice / heads, h = slice % heads;
        const Tensor ks = k[b][h], vs = v[b][h], to_k = to.k[part][b][h], to_v = to.v[part][b][h];
        for (int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block) {
          const int64_t row = block * kTileRows, rows = std::min(kTileRows, nodes - row);
          const int64_t seen = columns_seen(mask, options, row, rows, nodes), first = slice * nodes + row;
          const Tensor qs = q[b][h].narrow(0, row, rows), gs = grad[b][h].narrow(0, row, rows);
          Tensor to_q = to.q[b][h].narrow(0, row, rows);
          for (int64_t column = 0; column < seen; column += kTileColumns) {
            const TileRange range{row, rows, column, std::min(kTileColumns, seen - column)};
            Tensor scores = part_of(score_room, range), grads = part_of(grad_room, range);
            const Tensor keys = ks.narrow(0, column, range.columns), values = vs.narrow(0, column, range.columns);
            at::mm_out(scores, qs, keys.t());
            at::mm_out(grads, gs, values.t());
            rows_of_mask.enter(h, range);
            for (int64_t i = 0; i < rows; ++i) {
              const int64_t at = i * kTileColumns;
              pull_row(PullArgs<T>{score_room.mutable_data_ptr<T>() + at, grad_room.mutable_data_ptr<T>() + at,
                                   rows_of_mask.row(i), want_mask ? mask_room.mutable_data_ptr<T>() + at : nullptr,
                                   static_cast<T>(options.scale),
                                   T(1) / clamped_denominator<T>(denominator[first + i], options),
                                   delta.const_data_ptr<T>()[first + i], largest ? largest[first + i] : T(0),
                                   options.weighting},
                       0, range.columns);
            }
            to_v.narrow(0, column, range.columns).addmm_(scores.t(), gs);
            to_k.narrow(0, column, range.columns).addmm_(grads.t(), qs);
            to_q.addmm_(grads, keys);
            if (want_mask) mask_sums.add(h, range, mask_room);
          }
        }
      }
      if (want_mask) mask_sums.finish();
    }
  });
}

/// Σ over the parts, in their order.
Tensor sum_of_parts(const Tensor& parts) {
  Tensor sum = parts[0];
  for (int64_t p = 1; p < parts.size(0); ++p) sum.add_(parts[p]);
  return sum;
}

template <class T>
Five backward_as(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const MaskTiles& mask,
                 const Options& options, const Three& made, bool want_mask) {
  const TileSource<T> source(mask, q.size(2));
  // A clamped D does not move with the weights.
  Tensor delta = (grad * std::get<0>(made).to(grad.scalar_type())).sum(-1);
  if (options.weighting != Weighting::additive) delta.masked_fill_(std::get<1>(made).abs() < options.eps, 0);
  delta = delta.contiguous();
  const BackwardTasks cut = backward_tasks(source, q);
  const auto zeros = [&](const Tensor& like, int64_t copies) {
    std::vector<int64_t> shape = like.sizes().vec();
    if (copies > 0) shape.insert(shape.begin(), copies);
    return at::zeros(shape, like.options());
  };
  const bool learned = want_mask && has_values(mask.kind);
  Gradients to{zeros(q, 0), zeros(k, cut.parts), zeros(v, cut.parts), {}, {}};
  if (learned) to.values = zeros(source.values, mask.kind == TileKind::matrix ? 1 : cut.groups * cut.parts);
  if (learned && mask.kind == TileKind::factors) to.right = zeros(source.right, cut.groups * cut.parts);
  if (v.numel() > 0) {
    run_backward<T>(grad, q, k, v, mask, options, delta, made, cut, source, to, learned);
  }
  const auto none = [&] { return at::empty({0}, q.options()); };  // one for each: outputs must not share storage
  Tensor values = learned ? sum_of_parts(to.values) : none();
  if (learned && mask.kind == TileKind::offsets) values = values.flip(1);
  return {to.q, sum_of_parts(to.k), sum_of_parts(to.v), learned ? values.view(mask.values.sizes()) : values,
          to.right.defined() ? sum_of_parts(to.right) : none()};
}

Five backward_cpu(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& values,
                  const Tensor& right, const Tensor& index, const Tensor& out, const Tensor& denominator,
                  const Tensor& largest, int64_t kind, int64_t shift, int64_t globals, int64_t weighting, double scale,
                  double eps, bool want_mask) {
  const MaskTiles mask = tiles_of(values, right, index, kind, shift, globals);
  const Options options = options_of(weighting, scale, eps);
  const at::ScalarType given = q.scalar_type(), type = accumulation_type(given);
  const auto run = type == at::kDouble ? backward_as<double> : backward_as<float>;
  const auto [to_q, to_k, to_v, to_values, to_right] =
      run(grad.to(type), q.to(type), k.to(type), v.to(type), mask, options, {out, denominator, largest}, want_mask);
  return {to_q.to(given), to_k.to(given), to_v.to(given), to_values, to_right};
}

}  // namespace

TORCH_LIBRARY_IMPL(topomask, CPU, m) {
  m.impl("fused_attention", forward_cpu);
  m.impl("fused_attention_backward", backward_cpu);
}

}  // namespace topomask::ops::fused_attention
