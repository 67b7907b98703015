#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "core/move.h"
#include "core/ordered_sums.h"
#include "core/recycled.h"
#include "masks/forest/exponential/exponential_kernel.h"
#include "masks/forest/forest_masks.h"
#include "masks/forest/structure/forest_structure.h"

namespace topomask {
namespace {

class ExponentialMask final : public Mask {
 public:
  ExponentialMask(Forest forest, at::Tensor a, at::Tensor b)
      : forest_(std::move(forest)), a_(std::move(a)), b_(std::move(b)) {
    heads_ = a_.numel();
    if (b_.defined() && b_.numel() > heads_) heads_ = b_.numel();
    if (!forest_.weights().requires_grad()) lengths_ = lengths();
  }

  std::string name() const override { return "forest_exponential"; }
  int64_t size() const override { return forest_.num_nodes(); }
  int64_t heads() const override { return heads_; }
  std::optional<at::ScalarType> dtype() const override { return a_.scalar_type(); }

  std::vector<at::Tensor> parameters() const override {
    std::vector<at::Tensor> result{a_};
    if (!has_constant_lengths()) result.push_back(forest_.weights());
    if (b_.defined()) result.push_back(b_);
    return result;
  }

  MaskCounts counts() const override {
    const auto n = static_cast<double>(size());
    MaskCounts counts{.operator_work = kPassWork * n, .dense_work = kPassWork * n * n};
    if (offers_sparse()) {
      const double pairs = structure().pair_count();
      counts.sparse_entries = pairs;
      counts.factor_entries = pairs + n;
      counts.values_work = kExponentialWork * pairs;
    }
    return counts;
  }

  std::optional<SparseMatrix> sparse() const override {
    if (!offers_sparse()) return std::nullopt;
    const TreePairs& pairs = structure().pairs();
    const at::Tensor distances = pairs.distances.to(a_.scalar_type());
    at::Tensor exponent = a_.reshape({-1, 1}) * distances;
    if (b_.defined()) exponent = exponent + b_.reshape({-1, 1});
    return SparseMatrix{pairs.pattern, heads_ == 1 ? exponent.exp().reshape({-1}) : exponent.exp()};
  }

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    const at::Tensor b = b_.defined() ? parameters.back() : b_;
    const Forest& forest = has_constant_lengths() ? forest_ : forest_.with_weights(parameters[1]);
    return std::make_shared<ExponentialMask>(forest, parameters[0], b);
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(a_, target)) return shared_from_this();
    const at::Tensor a = a_.to(target), b = b_.defined() ? b_.to(target) : b_;
    if (a.is_cpu()) return make_exponential_mask(forest_.to(a.scalar_type()), a, b);
    return make_cuda_exponential(forest_, a, forest_.weights().to(target), b);
  }

  at::Tensor apply(const at::Tensor& x) const override {
    const Edges edges(*this);
    const bool grows = std::find(edges.growing.begin(), edges.growing.end(), true) != edges.growing.end();
    constexpr int64_t kCachedBytes = 20'000'000;  // rows of so much may be met in any order
    const bool shared = columns_per_task(x.size(3)) < std::min(x.size(3), kWide);  // threads take parts of a row
    const bool ordered = !grows && (rooted().scattered || shared) && x.numel() * x.element_size() > kCachedBytes;
    const at::Tensor y = ordered ? recycled_empty(x.sizes(), x.options()) : scaled_copy(x, edges.scale);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "tree_passes", [&] {
      if (ordered) return product<scalar_t>(edges, x, y);
      passes<scalar_t>(edges, y, /*up=*/true, /*down=*/true);
      add_outside<scalar_t>(edges, x, y);
    });
    return y;
  }

  at::Tensor apply_transposed(const at::Tensor& x) const override { return apply(x); }  // M is symmetric

  std::vector<at::Tensor> parameter_gradients(const at::Tensor& x, const at::Tensor& grad) const override {
    // ∂/∂(log e_v) and ⟨g_v, (M·x)_v⟩ per head and node; float64, since they are sums over all columns.
    at::Tensor edge = at::zeros({heads_, size()}, at::kDouble), node = at::zeros_like(edge);
    const Edges edges(*this);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "tree_gradients", [&] {
      add_gradients<scalar_t>(edges, x, grad, edge.mutable_data_ptr<double>(), node.mutable_data_ptr<double>());
    });
    const at::Tensor a = a_.detach().to(at::kDouble).reshape({-1, 1});
    edge.masked_fill_(forest_.parent() < 0, 0.0);
    const auto shaped = [](const at::Tensor& per_head, const at::Tensor& parameter) {
      return (parameter.numel() == 1 ? per_head.sum() : per_head)
          .reshape(parameter.sizes())
          .to(parameter.scalar_type());
    };
    std::vector<at::Tensor> result{shaped(ordered_sums(edge * lengths().to(at::kDouble)), a_)};
    if (!has_constant_lengths()) result.push_back(first_sums(edge * a).to(a_.scalar_type()));
    if (b_.defined()) result.push_back(shaped(ordered_sums(node), b_));
    return result;
  }

 private:
  // In units of what a multiply-add of the sparse kernels takes on a slice of columns (src/attention/cost_model.cpp).
  static constexpr double kPassWork = 3;
  static constexpr double kExponentialWork = 8;
  static constexpr int64_t kWide = 128;  // columns of a task

  /// e_v = exp(a·w_v) and e^b for each head, and whether some edge makes the mask grow.
  struct Edges {
    explicit Edges(const ExponentialMask& mask) {
      const int64_t heads = mask.heads_;
      edge = (mask.a_.detach().reshape({-1, 1}) * mask.lengths()).exp_().expand({heads, mask.size()}).contiguous();
      scale = mask.b_.defined() ? mask.b_.detach().exp().reshape({-1}).expand({heads}).contiguous()
                                : at::ones({heads}, edge.options());
      for (int64_t h = 0; h < heads; ++h) {
        growing.push_back(mask.size() > 0 && !(edge[h].max().item<double>() <= 1.0));
      }
    }
    at::Tensor edge;   // [H, N]
    at::Tensor scale;  // [H]
    std::vector<bool> growing;
  };

  const ForestStructure& structure() const { return forest_.structure(); }
  const RootedOrder& rooted() const { return *structure().rooted(); }
  bool offers_sparse() const { return has_constant_lengths() && structure().pair_count() <= kMaxSparseEntries; }
  /// Whether the lengths were constant when the mask was made: what is derived from them is then kept.
  bool has_constant_lengths() const { return lengths_.defined(); }
  /// By node, 0 at roots.
  at::Tensor lengths() const {
    if (lengths_.defined()) return lengths_;
    const at::Tensor& weights = forest_.weights();
    return at::where(forest_.parent() < 0, at::zeros({}, weights.options().requires_grad(false)), weights.detach());
  }

  /// Sums over nodes in one order, whatever the number of threads.
  static at::Tensor ordered_sums(const at::Tensor& per_node) {
    at::Tensor sums = at::zeros({per_node.size(0)}, at::kDouble);
    const at::Tensor plain = per_node.contiguous();
    const double* value = plain.const_data_ptr<double>();
    for (int64_t h = 0; h < plain.size(0); ++h) {
      double total = 0;
      for (int64_t v = 0; v < plain.size(1); ++v) total += value[h * plain.size(1) + v];
      sums[h] = total;
    }
    return sums;
  }

  /// Entries with that much work in all, in `tasks` tasks: how many tasks are worth a thread.
  static int64_t grain(int64_t work, int64_t tasks) {
    constexpr int64_t kTaskWork = 32768;
    return std::max<int64_t>(1, kTaskWork * tasks / std::max<int64_t>(1, work));
  }

  /// How many columns one task takes. A tree that is mostly crown, as a path is, leaves only the columns to share out.
  int64_t columns_per_task(int64_t columns) const {
    constexpr int64_t kNarrow = 16;
    if (4 * (rooted().size() - rooted().crown()) <= rooted().size()) return kWide;
    const int64_t share = (columns + at::get_num_threads() - 1) / at::get_num_threads();
    return std::clamp((share + kNarrow - 1) / kNarrow * kNarrow, kNarrow, kWide);
  }

  static at::Tensor copy(const at::Tensor& x) { return recycled_empty(x.sizes(), x.options()).copy_(x); }

  /// e^b·x, in the order of memory; the passes then meet rows in the order of the trees.
  static at::Tensor scaled_copy(const at::Tensor& x, const at::Tensor& scale) {
    at::Tensor y = recycled_empty(x.sizes(), x.options());
    return at::mul_out(y, x, scale.reshape({1, -1, 1, 1}));
  }

  template <class T>
  TreePassArgs<T> pass_args(const Edges& edges, int64_t head, const at::Tensor& y) const {
    return {.node = rooted().node.data(),
            .parent = rooted().parent.data(),
            .edge = edges.edge.const_data_ptr<T>() + head * size(),
            .y = y.mutable_data_ptr<T>(),
            .stride = y.size(-1),
            .width = y.size(-1)};
  }

  /// Both passes in place, y [B, H, N, C]: x becomes S, and R where the head does not grow and `down` is wanted.
  template <class T>
  void passes(const Edges& edges, const at::Tensor& y, bool up, bool down) const {
    const int64_t nodes = size(), columns = y.size(3), slices = y.size(0) * heads_;
    if (y.numel() == 0) return;
    const int64_t width = columns_per_task(columns), parts = (columns + width - 1) / width;
    const auto args_of = [&](int64_t task) {
      const int64_t slice = task / parts, first = task % parts * width;
      TreePassArgs<T> args = pass_args<T>(edges, slice % heads_, y);
      args.y += slice * nodes * columns + first;
      args.width = std::min(width, columns - first);
      return args;
    };
    const auto goes_down = [&](int64_t task) { return down && !edges.growing[task / parts % heads_]; };
    const std::vector<int64_t>& segment = rooted().segments;
    const int64_t segments = rooted().num_segments(), crown = rooted().crown();
    const auto for_segments = [&](const auto& pass) {
      at::parallel_for(0, slices * parts * segments, grain(crown * width, segments), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          pass(i / segments, segment[i % segments], segment[i % segments + 1]);
        }
      });
    };
    if (up) for_segments([&](int64_t task, int64_t begin, int64_t end) { tree_up(args_of(task), begin, end); });
    at::parallel_for(0, slices * parts, grain((nodes - crown) * width, 1), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        if (up) tree_up(args_of(task), crown, nodes);
        if (goes_down(task)) tree_down(args_of(task), crown, nodes);
      }
    });
    for_segments([&](int64_t task, int64_t begin, int64_t end) {
      if (goes_down(task)) tree_down(args_of(task), begin, end);
    });
  }

  /// y = M·x where no head grows: both passes on rows copied into the order of the entries, in which a segment lies
  /// together and no two threads write to neighbouring rows.
  template <class T>
  void product(const Edges& edges, const at::Tensor& x, const at::Tensor& y) const {
    const int64_t nodes = size(), columns = x.size(3), slices = x.size(0) * heads_;
    if (x.numel() == 0) return;
    const int64_t width = columns_per_task(columns), parts = (columns + width - 1) / width;
    const at::Tensor work = recycled_empty(x.sizes(), x.options());
    constexpr int64_t kLine = 64;
    const bool streaming =
        columns * x.element_size() % kLine == 0 && reinterpret_cast<uintptr_t>(y.data_ptr()) % kLine == 0;
    enum class Pass { gather, up, down };
    const auto pass = [&](Pass which, int64_t task, int64_t begin, int64_t end) {
      const int64_t head = task / parts % heads_, first = task % parts * width,
                    count = std::min(width, columns - first);
      const int64_t slice = task / parts * nodes * columns;
      T* rows = work.mutable_data_ptr<T>() + slice + first * nodes;
      TreePassArgs<T> args = pass_args<T>(edges, head, y);
      args.parent = rooted().parent_entry.data();
      args.y = rows;
      args.stride = args.width = count;
      args.by_entry = true;
      if (which == Pass::gather) {
        const T scale = edges.scale.const_data_ptr<T>()[head];
        const T* from = x.const_data_ptr<T>() + slice + first;
        tree_gather({args.node, from, rows, columns, count, count, scale, false}, begin, end);
      } else if (which == Pass::up) {
        tree_up(args, begin, end);
      } else {
        tree_down(args, begin, end);
        T* to = y.mutable_data_ptr<T>() + slice + first;
        tree_scatter({args.node, rows, to, count, columns, count, 1, streaming}, begin, end);
      }
    };
    const std::vector<int64_t>& segment = rooted().segments;
    const int64_t segments = rooted().num_segments(), crown = rooted().crown();
    const auto for_segments = [&](const auto& f) {
      at::parallel_for(0, slices * parts * segments, grain(crown * width, segments), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) f(i / segments, segment[i % segments], segment[i % segments + 1]);
      });
    };
    const auto for_crowns = [&](const auto& f) {
      at::parallel_for(0, slices * parts, grain((nodes - crown) * width, 1), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) f(task);
      });
    };
    for_crowns([&](int64_t task) { pass(Pass::gather, task, crown, nodes); });  // segments add to it
    for_segments([&](int64_t task, int64_t begin, int64_t end) {
      pass(Pass::gather, task, begin, end);
      pass(Pass::up, task, begin, end);
    });
    for_crowns([&](int64_t task) {
      pass(Pass::up, task, crown, nodes);
      pass(Pass::down, task, crown, nodes);
    });
    for_segments([&](int64_t task, int64_t begin, int64_t end) { pass(Pass::down, task, begin, end); });
  }

  /// O of one slice [N, C] from x, which is yet to be multiplied with `scale`, and S.
  template <class T>
  at::Tensor outside(const Edges& edges, int64_t head, const at::Tensor& x, T scale, const at::Tensor& inside) const {
    at::Tensor result = recycled_empty(inside.sizes(), inside.options());
    const int64_t columns = x.size(1);
    constexpr int64_t kWidth = 32;
    at::parallel_for(0, (columns + kWidth - 1) / kWidth, grain(size() * kWidth, 1), [&](int64_t begin, int64_t end) {
      T buffer[kWidth];
      for (int64_t first = begin * kWidth; first < std::min(end * kWidth, columns); first += kWidth) {
        const OutsideArgs<T> args{.preorder = rooted().preorder.data(),
                                  .preorder_parent = rooted().preorder_parent.data(),
                                  .child_offset = rooted().child_offset.data(),
                                  .children = rooted().children.data(),
                                  .edge = edges.edge.const_data_ptr<T>() + head * size(),
                                  .scale = scale,
                                  .x = x.const_data_ptr<T>() + first,
                                  .inside = inside.const_data_ptr<T>() + first,
                                  .outside = result.mutable_data_ptr<T>() + first,
                                  .stride = columns,
                                  .width = std::min(kWidth, columns - first),
                                  .buffer = buffer};
        tree_outside(args, 0, size());
      }
    });
    return result;
  }

  /// M·x from S of x where a head grows.
  template <class T>
  void add_outside(const Edges& edges, const at::Tensor& x, const at::Tensor& y) const {
    for (int64_t slice = 0; slice < x.size(0) * heads_; ++slice) {
      const int64_t head = slice % heads_;
      if (!edges.growing[head]) continue;
      const at::Tensor inside = y.flatten(0, 1)[slice];
      inside.add_(outside<T>(edges, head, x.flatten(0, 1)[slice], edges.scale.const_data_ptr<T>()[head], inside));
    }
  }

  template <class T>
  void add_gradients(const Edges& edges, const at::Tensor& x, const at::Tensor& g, double* edge, double* node) const {
    const at::Tensor inside_x = scaled_copy(x, edges.scale), inside_g = copy(g);
    passes<T>(edges, inside_x, /*up=*/true, /*down=*/false);
    passes<T>(edges, inside_g, /*up=*/true, /*down=*/false);
    const at::Tensor total_x = copy(inside_x), total_g = copy(inside_g);
    passes<T>(edges, total_x, /*up=*/false, /*down=*/true);
    passes<T>(edges, total_g, /*up=*/false, /*down=*/true);
    for (int64_t slice = 0; slice < x.size(0) * heads_; ++slice) {
      const int64_t head = slice % heads_;
      const auto of = [slice](const at::Tensor& all) { return all.flatten(0, 1)[slice]; };
      const bool grows = edges.growing[head];
      const T scale = edges.scale.const_data_ptr<T>()[head];
      const at::Tensor other_x = grows ? outside<T>(edges, head, of(x), scale, of(inside_x)) : of(total_x);
      const at::Tensor other_g = grows ? outside<T>(edges, head, of(g), T(1), of(inside_g)) : of(total_g);
      const EdgeGradientArgs<T> args{.parent = forest_.parent().const_data_ptr<int32_t>(),
                                     .edge = edges.edge.const_data_ptr<T>() + head * size(),
                                     .inside_x = of(inside_x).template const_data_ptr<T>(),
                                     .inside_g = of(inside_g).template const_data_ptr<T>(),
                                     .other_x = other_x.const_data_ptr<T>(),
                                     .other_g = other_g.const_data_ptr<T>(),
                                     .g = of(g).template const_data_ptr<T>(),
                                     .width = x.size(3),
                                     .edges = edge + head * size(),
                                     .nodes = node + head * size()};
      at::parallel_for(0, size(), grain(size() * x.size(3), size()), [&](int64_t begin, int64_t end) {
        grows ? edge_gradients(args, begin, end) : edge_gradients_from_totals(args, begin, end);
      });
    }
  }

  Forest forest_;
  at::Tensor a_, b_;
  at::Tensor lengths_;
  int64_t heads_ = 1;
};

}  // namespace

MaskPtr make_exponential_mask(const Forest& forest, const at::Tensor& a, const at::Tensor& b) {
  return std::make_shared<ExponentialMask>(forest, a, b);
}

}  // namespace topomask
