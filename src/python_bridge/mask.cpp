#include <sstream>

#include "attention/names.h"
#include "core/checks.h"
#include "masks/names.h"
#include "python_bridge/objects.h"
#include "python_bridge/ordered_sparse_mask.h"
#include "python_bridge/python_mask.h"

namespace topomask::python {
namespace {

using MaskRef = Ref<MaskPtr>;
using MaskClass = torch::class_<Value<MaskPtr>>;

GrfOptions grf_options(const char* op, const std::string& diagonal) {
  return {.diagonal = kDiagonalNames.parse(op, "diagonal", diagonal)};
}

ToeplitzOptions toeplitz_options(const char* op, bool logarithmic, const std::string& causality) {
  return {.logarithmic = logarithmic, .causality = kCausalityNames.parse(op, "causality", causality)};
}

void bind_plain(MaskClass& c) {
  c.def_static("none_mask", [](int64_t nodes) { return hold(none_mask(nodes)); });
  c.def_static("causal_mask", [](int64_t nodes) { return hold(causal_mask(nodes)); });
  c.def_static("dense_mask", [](const at::Tensor& matrix) { return hold(dense_mask(matrix)); });
  c.def_static("sparse_mask", [](const Ref<PatternPtr>& pattern, const at::Tensor& values) {
    return hold(sparse_mask({pattern->value, values}));
  });
  c.def_static("ordered_sparse_mask", ordered_sparse_mask);
  c.def_static("neighbours_mask", [](const Ref<Graph>& graph) { return hold(neighbours_mask(graph->value)); });
  c.def_static("weighted_neighbours_mask", [](const Ref<Graph>& graph, const at::Tensor& weights) {
    return hold(weighted_neighbours_mask(graph->value, weights));
  });
  c.def_static("power_series_mask_over", [](const Ref<PowerSeriesBasisPtr>& basis, const at::Tensor& alpha) {
    return hold(power_series_mask(basis->value, alpha));
  });
  c.def_static("power_series_mask", [](const Ref<Graph>& graph, const at::Tensor& alpha, int64_t max_sparse_entries) {
    return hold(power_series_mask(graph->value, alpha, {.max_sparse_entries = max_sparse_entries}));
  });
  c.def_static("toeplitz_mask", [](const std::vector<int64_t>& dims, const at::Tensor& offsets, bool logarithmic,
                                   const std::string& causality) {
    return hold(toeplitz_mask(dims, offsets, toeplitz_options("toeplitz_mask", logarithmic, causality)));
  });
  c.def_static("toeplitz_distance_mask", [](const std::vector<int64_t>& dims, const at::Tensor& f, bool logarithmic,
                                            const std::string& causality) {
    return hold(toeplitz_distance_mask(dims, f, toeplitz_options("toeplitz_distance_mask", logarithmic, causality)));
  });
  c.def_static("tree_mask", [](const Ref<Forest>& forest, const Ref<DistanceFunction>& f) {
    return hold(tree_mask(forest->value, f->value));
  });
  c.def_static("with_global_tokens",
               [](const MaskRef& mask, int64_t tokens) { return hold(with_global_tokens(mask->value, tokens)); });
  c.def_static("per_head_mask",
               [](const std::vector<MaskRef>& masks) { return hold(per_head_mask(values_of(masks))); });
  c.def_static("python_mask", python_mask);
}

void bind_walked(MaskClass& c) {
  c.def_static("grf_mask", [](const Ref<WalkTable>& walks, const at::Tensor& f, const std::string& diagonal) {
    return hold(grf_mask(walks->value, f, grf_options("grf_mask", diagonal)));
  });
  c.def_static("two_sided_grf_mask", [](const Ref<WalkTable>& query_walks, const Ref<WalkTable>& key_walks,
                                        const at::Tensor& f_query, const std::optional<at::Tensor>& f_key) {
    return hold(grf_mask(query_walks->value, key_walks->value, f_query, or_undefined(f_key)));
  });
  c.def_static("asymmetric_grf_mask", [](const Ref<WalkTable>& walks, const at::Tensor& f) {
    return hold(asymmetric_grf_mask(walks->value, f));
  });
  c.def_static("ad_hoc_mask",
               [](const Ref<WalkTable>& walks, const at::Tensor& f) { return hold(ad_hoc_mask(walks->value, f)); });
  c.def_static("hybrid_grf_mask", [](const Ref<WalkTable>& walks, const Ref<Graph>& graph, const at::Tensor& f,
                                     const std::string& diagonal) {
    return hold(hybrid_grf_mask(walks->value, graph->value, f, grf_options("hybrid_grf_mask", diagonal)));
  });
  c.def_static("stitched_grf_mask",
               [](const std::vector<Ref<WalkTable>>& walks, const at::Tensor& f, int64_t max_sparse_entries) {
                 return hold(stitched_grf_mask(values_of(walks), f, {.max_sparse_entries = max_sparse_entries}));
               });
  c.def_static("projected_mask", [](const MaskRef& mask, int64_t width, int64_t seed) {
    return hold(projected_mask(mask->value, {.width = width, .seed = static_cast<uint64_t>(seed)}));
  });
  c.def_static("walking_mask", [](const Ref<Graph>& graph, const at::Tensor& f, const Ref<WalkOptions>& walks) {
    return hold(walking_mask(graph->value, f, walks->value));
  });
  c.def_static("node_kernel_mask",
               [](const Ref<WalkTable>& walks, const std::optional<at::Tensor>& discount, int64_t alpha, double p) {
                 return hold(node_kernel_mask(walks->value, or_undefined(discount), {.alpha = alpha, .p = p}));
               });
  c.def_static("node_frequency_mask", [](const Ref<WalkTable>& walks, const std::optional<at::Tensor>& discount) {
    return hold(node_frequency_mask(walks->value, or_undefined(discount)));
  });
}

void bind_diffusion(MaskClass& c) {
  c.def_static("diffusion_mask", [](const Ref<Graph>& graph, const at::Tensor& lambda, const std::string& generator,
                                    double tolerance, const std::string& method) {
    constexpr const char* kOp = "diffusion_mask";
    return hold(diffusion_mask(graph->value, lambda,
                               {.generator = kGeneratorNames.parse(kOp, "generator", generator),
                                .tolerance = tolerance,
                                .method = kDiffusionMethodNames.parse(kOp, "method", method)}));
  });
  c.def_static("product_diffusion_mask", [](const std::vector<Ref<Graph>>& factors, const at::Tensor& lambda,
                                            const std::string& generator) {
    return hold(product_diffusion_mask(values_of(factors), lambda,
                                       kGeneratorNames.parse("product_diffusion_mask", "generator", generator)));
  });
  c.def_static("hypercube_diffusion_mask", [](int64_t dimensions, const at::Tensor& lambda) {
    return hold(hypercube_diffusion_mask(dimensions, lambda));
  });
  c.def_static("low_rank_diffusion_mask", [](const at::Tensor& u, const at::Tensor& v, const at::Tensor& lambda) {
    return hold(low_rank_diffusion_mask(u, v, lambda));
  });
}

void bind_encodings(MaskClass& c) {
  c.def_static(
      "stochastic_positional_mask", [](int64_t nodes, const at::Tensor& frequencies, const at::Tensor& amplitudes,
                                       const std::optional<at::Tensor>& phases, int64_t realisations, int64_t seed) {
        return hold(stochastic_positional_mask(nodes, frequencies, amplitudes, or_undefined(phases),
                                               {.realisations = realisations, .seed = static_cast<uint64_t>(seed)}));
      });
  c.def_static("centrality_mask", [](const Ref<Graph>& graph, const at::Tensor& z, bool logits) {
    return hold(centrality_mask(graph->value, z, {.logits = logits}));
  });
  c.def_static("free_features_mask", [](const at::Tensor& left, const std::optional<at::Tensor>& right) {
    return hold(free_features_mask(left, or_undefined(right)));
  });
  c.def_static("shortest_path_mask", [](const Ref<Graph>& graph, const at::Tensor& bias, int64_t max_entries) {
    return hold(shortest_path_mask(graph->value, bias, {.max_entries = max_entries}));
  });
  c.def_static("distance_table_mask", [](const at::Tensor& distances, const at::Tensor& bias) {
    return hold(shortest_path_mask(distances, bias));
  });
}

/// route, mask, reason, the table as text; of each route its name, time, memory, verdict and whether the mask offers
/// it.
using PlanFields = std::tuple<std::string, std::string, std::string, std::string, std::vector<std::string>,
                              std::vector<double>, std::vector<double>, std::vector<std::string>, std::vector<int64_t>>;

PlanFields fields(const Plan& plan) {
  std::ostringstream table;
  table << plan;
  PlanFields result{to_string(plan.route), plan.mask, plan.reason, table.str(), {}, {}, {}, {}, {}};
  for (const RouteEstimate& estimate : plan.estimates) {
    std::get<4>(result).emplace_back(to_string(estimate.route));
    std::get<5>(result).push_back(estimate.seconds);
    std::get<6>(result).push_back(estimate.bytes);
    std::get<7>(result).push_back(estimate.reason);
    std::get<8>(result).push_back(estimate.available ? 1 : 0);
  }
  return result;
}

Workload workload(const std::vector<int64_t>& counts, at::ScalarType dtype, const at::Device& device, bool training) {
  TORCH_CHECK(counts.size() == 6, "plan_attention: workload must have 6 counts, got ", counts.size());
  return {.slices = counts[0],
          .heads = counts[1],
          .nodes = counts[2],
          .features = counts[3],
          .value_dim = counts[4],
          .dtype = dtype,
          .device = device.type(),
          .threads = static_cast<int>(counts[5]),
          .training = training};
}

void bind_attention(MaskClass& c) {
  c.def("attention",
        [](const MaskRef& self, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::string& route,
           double eps, int64_t memory_budget) {
          return once("attention", attention(q, k, v, self->value,
                                             {.features = FeatureMap::identity(),
                                              .route = kRouteNames.parse("attention", "route", route),
                                              .eps = eps,
                                              .memory_budget = memory_budget}));
        })
      .def("softmax_attention",
           [](const MaskRef& self, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
              const std::string& mask, std::optional<double> scale, const std::string& route, double eps,
              int64_t memory_budget) {
             constexpr const char* kOp = "softmax_attention";
             return once(kOp, softmax_attention(q, k, v, self->value,
                                                {.mask = kSoftmaxMaskNames.parse(kOp, "mode", mask),
                                                 .scale = scale,
                                                 .route = kRouteNames.parse(kOp, "route", route),
                                                 .eps = eps,
                                                 .memory_budget = memory_budget}));
           })
      .def("explain",
           [](const MaskRef& self, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
              int64_t memory_budget) {
             return fields(
                 explain(q, k, v, self->value, {.features = FeatureMap::identity(), .memory_budget = memory_budget}));
           })
      .def("plan_attention",
           [](const MaskRef& self, const std::vector<int64_t>& counts, at::ScalarType dtype, const at::Device& device,
              bool training, int64_t memory_budget) {
             return fields(plan_attention(*self->value, workload(counts, dtype, device, training), memory_budget));
           })
      .def("plan_softmax", [](const MaskRef& self, const std::vector<int64_t>& counts, at::ScalarType dtype,
                              const at::Device& device, bool training, bool additive, int64_t memory_budget) {
        return fields(plan_softmax(*self->value, workload(counts, dtype, device, training), additive, memory_budget));
      });
}

}  // namespace

at::Tensor once(const char* op, at::Tensor out) {
  if (out.requires_grad()) {
    out.register_hook([op](const at::Tensor&) { check_differentiated_once(op); });
  }
  return out;
}

void bind_mask(torch::Library& m) {
  m.class_<Value<PowerSeriesBasisPtr>>("PowerSeriesBasis")
      .def_static("make", [](const Ref<Graph>& graph, int64_t terms, int64_t max_sparse_entries) {
        return hold(power_series_basis(graph->value, terms, {.max_sparse_entries = max_sparse_entries}));
      });
  auto c = m.class_<Value<MaskPtr>>("Mask");
  bind_plain(c);
  bind_walked(c);
  bind_diffusion(c);
  bind_encodings(c);
  bind_attention(c);
  c.def("name", [](const MaskRef& self) { return self->value->name(); })
      .def("size", [](const MaskRef& self) { return self->value->size(); })
      .def("heads", [](const MaskRef& self) { return self->value->heads(); })
      .def("parameters", [](const MaskRef& self) { return self->value->parameters(); })
      .def("moved",
           [](const MaskRef& self, at::Device device, const std::vector<at::Tensor>& parameters) {
             const MaskPtr there = self->value->to(device);
             const MaskPtr rebuilt = parameters.empty() ? there : there->rebuild(parameters);
             TORCH_CHECK(rebuilt, self->value->name(), ": the mask cannot take its parameters from ", device);
             return hold(rebuilt);
           })
      .def("number", [](const MaskRef& self) { return mask_number(self->value); })
      .def("chebyshev_degree", [](const MaskRef& self) { return chebyshev_degree(*self->value); })
      .def("matmul",
           [](const MaskRef& self, const at::Tensor& x) { return once("Mask::matmul", self->value->matmul(x)); })
      .def("matmul_transposed",
           [](const MaskRef& self, const at::Tensor& x) {
             return once("Mask::matmul_transposed", self->value->matmul_transposed(x));
           })
      .def("dense", [](const MaskRef& self) { return self->value->dense(); })
      // Pattern and values, or nothing where the mask has no sparse form.
      .def("sparse",
           [](const MaskRef& self) -> std::optional<std::tuple<Ref<PatternPtr>, at::Tensor>> {
             const auto matrix = self->value->sparse();
             if (!matrix) return std::nullopt;
             return std::make_tuple(hold(matrix->pattern), matrix->values);
           })
      // MaskTiles of the fused route: kind, -1 for none, index, shift, values.
      .def("tiles", [](const MaskRef& self) {
        const auto offered = self->value->tiles();
        const MaskTiles tiles = offered.value_or(MaskTiles{});
        const int64_t kind = offered ? static_cast<int64_t>(tiles.kind) : -1;
        return std::make_tuple(kind, or_none(tiles.index), tiles.shift, or_none(tiles.values));
      });
}

}  // namespace topomask::python
