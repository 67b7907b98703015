#include "topomask/diffusion.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "nn/graph_models/blocks.h"
#include "nn/graph_models/edges.h"
#include "topomask/masks.h"
#include "topomask/nn/graph_mask.h"

namespace topomask {
namespace {

constexpr const char* kModes = "modes";  // eigenvectors of L as columns, inside each graph
constexpr const char* kRates = "rates";  // their eigenvalues: row k of a graph has the k-th

/// exp(−λL), L the normalised Laplacian of the edges, with a learnable time λ > 0 for each head. For kernel attention
/// by products with L, and there is nothing to keep. Softmax needs the entries: eigenvectors are kept for the data set,
/// Σ n_g² numbers, and a batch takes Σ n_g³ multiply-adds.
class DiffusionGraphMask final : public GraphMask {
 public:
  explicit DiffusionGraphMask(const GraphMaskSetting& setting)
      : GraphMask(setting),
        log_time_(learnt("log_time", at::full({setting.heads}, std::log(setting.options.diffusion_time)))) {}

  void prepare(const GraphSet& set, int64_t, GraphStructure& structure) const override {
    if (!setting().softmax || structure.matrices.contains(kModes)) return;
    TORCH_CHECK(!set.graph.directed(),
                "graph model: mask diffusion under softmax must have undirected graphs, whose "
                "Laplacian has orthogonal eigenvectors, got directed ones");
    const PatternPtr pairs = pairs_inside(set.offsets, setting().options.max_entries, "mask diffusion under softmax");
    std::vector<at::Tensor> modes{at::empty({0}, at::kDouble)}, rates{at::empty({0}, at::kDouble)};
    for (int64_t g = 0; g < set.size(); ++g) {
      const Graph graph = graph_at(set, g).normalised().to(at::kDouble);
      const at::Tensor connected = (graph.degrees() > 0).to(at::kDouble);
      const auto [values, vectors] = at::linalg_eigh(at::diag(connected) - graph.matrix().dense());
      modes.push_back(vectors.flatten());
      rates.push_back(values);
    }
    const at::ScalarType type = set.graph.weights().scalar_type();
    structure.matrices.emplace(kModes, SparseMatrix{pairs, at::cat(modes).to(type)});
    structure.node[kRates] = at::cat(rates).to(type);
  }

  MaskPtr mask(const GraphSample& sample, const GraphStructure& structure) const override {
    if (setting().softmax) return by_modes(sample, structure);
    const Graph graph = sample.graph.to(options());
    return diffusion_mask(graph.with_weights(at::ones_like(graph.weights())), log_time_.exp(),
                          {.generator = Generator::normalised_laplacian,
                           .tolerance = log_time_.scalar_type() == at::kDouble ? 1e-12 : 1e-6});
  }

 private:
  at::TensorOptions options() const { return at::device(log_time_.device()).dtype(log_time_.scalar_type()); }

  /// U exp(−λν) Uᵀ, graph by graph.
  MaskPtr by_modes(const GraphSample& sample, const GraphStructure& structure) const {
    const c10::impl::ExcludeDispatchKeyGuard exact(c10::autocast_dispatch_keyset);  // a mask stays in float32
    const SparseMatrix modes = matrix_of(structure, kModes).to(options());
    const at::Tensor rates = rows_of(structure, kRates).to(options()), time = log_time_.exp().view({-1, 1, 1});
    const at::Tensor sizes = at::bincount(sample.membership, {}, sample.graphs).to(at::kCPU);
    std::vector<at::Tensor> values{at::empty({log_time_.size(0), 0}, options())};
    int64_t node = 0, entry = 0;
    for (int64_t g = 0; g < sample.graphs; ++g) {
      const int64_t n = sizes.const_data_ptr<int64_t>()[g];
      const at::Tensor u = modes.values.slice(0, entry, entry + n * n).view({n, n});
      const at::Tensor decay = at::exp(-time * rates.slice(0, node, node + n));
      values.push_back(at::matmul(u * decay, u.t()).flatten(1));
      node += n;
      entry += n * n;
    }
    return sparse_mask({modes.pattern, at::cat(values, 1)});
  }

  at::Tensor log_time_;
};

const GraphMaskRegistration kDiffusionGraphMask("diffusion", [](const GraphMaskSetting& setting) {
  return std::make_shared<DiffusionGraphMask>(setting);
});

}  // namespace
}  // namespace topomask
