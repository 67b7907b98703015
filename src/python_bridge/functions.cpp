#include <sstream>

#include "masks/names.h"
#include "ops/fused_attention/op.h"
#include "ops/layer_norm_rows/op.h"
#include "ops/sparse_attention/limits.h"
#include "python_bridge/objects.h"

namespace topomask::python {
namespace {

struct Functions : torch::CustomClassHolder {};

std::tuple<at::Tensor, at::Tensor, at::Tensor, double> fields(const MaskError& error) {
  return {error.rows, error.mean, error.standard_error, error.relative};
}

SuggestOptions suggest_options(const char* op, const std::string& diagonal, bool one_sided, int64_t max_walkers,
                               int64_t nodes, int64_t features, int64_t value_dim, int64_t seed) {
  return {.diagonal = kDiagonalNames.parse(op, "diagonal", diagonal),
          .one_sided = one_sided,
          .max_walkers = max_walkers,
          .nodes = nodes,
          .features = features,
          .value_dim = value_dim,
          .seed = static_cast<uint64_t>(seed)};
}

using SuggestionFields =
    std::tuple<std::vector<double>, int64_t, std::optional<Ref<WalkOptions>>, bool, bool, std::string, std::string>;

SuggestionFields fields(const Suggestion& s) {
  std::ostringstream table;
  table << s;
  return {{s.tolerance, s.exact.error, s.exact.seconds, s.sampled.error, s.sampled.seconds},
          s.terms,
          s.walks ? std::optional(hold(*s.walks)) : std::nullopt,
          s.estimator == Estimator::symmetric,
          s.use_exact,
          s.reason,
          table.str()};
}

}  // namespace

void bind_functions(torch::Library& m) {
  m.class_<Functions>("Functions")
      .def_static("diffusion_coefficients", [](int64_t terms, double b) { return diffusion_coefficients(terms, b); })
      .def_static("regularised_laplacian_coefficients",
                  [](int64_t terms, double d) { return regularised_laplacian_coefficients(terms, d); })
      .def_static("random_walk_coefficients",
                  [](int64_t terms, double p) { return random_walk_coefficients(terms, p); })
      .def_static("cosine_coefficients", [](int64_t terms) { return cosine_coefficients(terms); })
      .def_static("convolve", [](const at::Tensor& f, int64_t factors,
                                 std::optional<int64_t> terms) { return convolve(f, factors, terms); })
      .def_static("deconvolve", [](const at::Tensor& alpha, int64_t factors) { return deconvolve(alpha, factors); })
      .def_static("concentration_bound",
                  [](int64_t walkers, double deviation, double constant) {
                    return concentration_bound(walkers, deviation, constant);
                  })
      .def_static("walkers_for", [](double deviation, double probability,
                                    double constant) { return walkers_for(deviation, probability, constant); })
      .def_static("feature_entries_bound",
                  [](int64_t walkers, double p, double delta) { return feature_entries_bound(walkers, p, delta); })
      .def_static("mask_error_of", [](const std::vector<Ref<MaskPtr>>& masks,
                                      const at::Tensor& rows) { return fields(mask_error(values_of(masks), rows)); })
      .def_static("mask_error",
                  [](const Ref<Graph>& graph, const Ref<WalkOptions>& walks, const at::Tensor& f,
                     const std::string& diagonal, int64_t batches, int64_t nodes) {
                    return fields(mask_error(graph->value, walks->value, f,
                                             {.diagonal = kDiagonalNames.parse("mask_error", "diagonal", diagonal),
                                              .batches = batches,
                                              .nodes = nodes}));
                  })
      .def_static(
          "suggest",
          [](const Ref<Graph>& graph, const at::Tensor& f, double tolerance, const std::string& diagonal,
             bool one_sided, int64_t max_walkers, int64_t nodes, int64_t features, int64_t value_dim, int64_t seed) {
            return fields(suggest(
                graph->value, f, tolerance,
                suggest_options("suggest", diagonal, one_sided, max_walkers, nodes, features, value_dim, seed)));
          })
      .def_static(
          "auto_mask",
          [](const Ref<Graph>& graph, const at::Tensor& alpha, double tolerance, const std::string& diagonal,
             bool one_sided, int64_t max_walkers, int64_t nodes, int64_t features, int64_t value_dim, int64_t seed) {
            return hold(auto_mask(
                graph->value, alpha, tolerance,
                suggest_options("auto_mask", diagonal, one_sided, max_walkers, nodes, features, value_dim, seed)));
          })
      .def_static(
          "random_fourier_factors",
          [](const at::Tensor& points, double radius, int64_t features, const std::string& kernel, int64_t seed) {
            const FourierFactors factors = random_fourier_factors(
                points, {.radius = radius,
                         .features = features,
                         .kernel = kNeighbourKernelNames.parse("random_fourier_factors", "kernel", kernel),
                         .seed = static_cast<uint64_t>(seed)});
            return std::make_tuple(factors.u, factors.v);
          })
      .def_static("favor_directions",
                  [](int64_t features, int64_t head_dim, int64_t seed, bool orthogonal) {
                    return favor_directions(features, head_dim, static_cast<uint64_t>(seed), orthogonal);
                  })
      .def_static("most_sparse_row_bytes", [] { return ops::sparse_attention::kMaxCudaRowBytes; })
      .def_static("most_fused_width", [] { return ops::fused_attention::kMostCudaWidth; })
      .def_static("most_norm_width", [] { return ops::layer_norm_rows::kMostCudaWidth; })
      .def_static("norm_width_unit", [] { return ops::layer_norm_rows::kCudaWidthUnit; })
      .def_static("fused_attention_supports",
                  [](at::ScalarType dtype, int64_t features, int64_t value_dim, int64_t kind, int64_t weighting,
                     at::Device device) {
                    return ops::fused_attention::supports({.dtype = dtype,
                                                           .features = features,
                                                           .value_dim = value_dim,
                                                           .kind = static_cast<TileKind>(kind),
                                                           .weighting = static_cast<Weighting>(weighting),
                                                           .device = device.type()});
                  })
      .def_static("layer_norm_rows_supports",
                  [](int64_t width, at::ScalarType x, at::ScalarType dtype) {
                    return ops::layer_norm_rows::supports(width, x, dtype);
                  })
      .def_static("set_kept_memory_limit", [](int64_t bytes) { set_kept_memory_limit(bytes); })
      .def_static("kept_memory_limit", [] { return kept_memory_limit(); })
      .def_static("kept_memory", [] { return kept_memory(); })
      .def_static("release_kept_memory", [] { release_kept_memory(); })
      .def_static("close_callbacks", [] { Callback::close(); });
}

}  // namespace topomask::python
