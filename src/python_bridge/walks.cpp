#include "python_bridge/objects.h"
#include "walks/check_arrays.h"
#include "walks/names.h"
#include "walks/plan.h"

namespace topomask::python {
namespace {

using OptionsRef = Ref<WalkOptions>;
using WalksRef = Ref<WalkTable>;

void bind_options(torch::Library& m) {
  m.class_<Value<WalkOptions>>("WalkOptions")
      .def(torch::init([](int64_t walkers, double halting_probability, int64_t max_hops,
                          std::optional<int64_t> fixed_hops, const std::optional<at::Tensor>& survival,
                          int64_t exact_hops, const std::string& coupling, int64_t ensemble,
                          const std::string& proposal, const std::optional<at::Tensor>& proposal_weights,
                          bool group_products, int64_t seed, int64_t first_walker) {
        return hold<WalkOptions>({.walkers = walkers,
                                  .halting_probability = halting_probability,
                                  .max_hops = max_hops,
                                  .fixed_hops = fixed_hops,
                                  .survival = or_undefined(survival),
                                  .exact_hops = exact_hops,
                                  .coupling = kCouplingNames.parse("sample_walks", "coupling", coupling),
                                  .ensemble = ensemble,
                                  .proposal = kProposalNames.parse("sample_walks", "proposal", proposal),
                                  .proposal_weights = or_undefined(proposal_weights),
                                  .group_products = group_products,
                                  .seed = static_cast<uint64_t>(seed),
                                  .first_walker = first_walker});
      }))
      .def("fields", [](const OptionsRef& self) {
        const WalkOptions& o = self->value;
        return std::make_tuple(o.walkers, o.halting_probability, o.max_hops, o.fixed_hops, or_none(o.survival),
                               o.exact_hops, std::string(kCouplingNames[o.coupling]), o.ensemble,
                               std::string(kProposalNames[o.proposal]), or_none(o.proposal_weights), o.group_products,
                               static_cast<int64_t>(o.seed), o.first_walker);
      });
}

/// A table from tensors that came from outside, checked; `tensors` as tensors() below gives them.
Ref<WalkTable> table_of(const std::vector<at::Tensor>& tensors, const OptionsRef& options, bool sampled) {
  TORCH_CHECK(tensors.size() == 5 || tensors.size() == 8, "WalkTable: tensors must be 5 or 8, got ", tensors.size());
  WalkTable::Arrays arrays{tensors[0], tensors[1], tensors[2], tensors[3], tensors[4]};
  if (tensors.size() == 8) {
    arrays.product_offsets = tensors[5];
    arrays.product_hops = tensors[6];
    arrays.product_values = tensors[7];
  }
  const int64_t max_hops = WalkPlan("WalkTable", options->value).max_hops;
  TORCH_CHECK(arrays.offsets.dim() == 1 && arrays.offsets.size(0) > 0 && arrays.offsets.scalar_type() == at::kLong,
              "WalkTable: offsets must be Long [N + 1]");
  const at::Device device = arrays.loads.device();
  const auto on_cpu = [](const at::Tensor& t) { return t.defined() ? t.cpu().contiguous() : t; };
  const WalkTable::Arrays plain{on_cpu(arrays.offsets),      on_cpu(arrays.columns),
                                on_cpu(arrays.hops),         on_cpu(arrays.loads),
                                on_cpu(arrays.counts),       on_cpu(arrays.product_offsets),
                                on_cpu(arrays.product_hops), on_cpu(arrays.product_values)};
  check_table_arrays("WalkTable", plain, plain.offsets.size(0) - 1, max_hops);
  const WalkTable table(plain, options->value, max_hops, sampled);
  return hold(device.is_cpu() ? table : table.to(device));
}

std::vector<at::Tensor> table_tensors(const WalkTable& table) {
  std::vector<at::Tensor> tensors{table.offsets(), table.columns(), table.hops(), table.loads(), table.counts()};
  if (table.has_group_products()) {
    tensors.insert(tensors.end(), {table.product_offsets(), table.product_hops(), table.product_values()});
  }
  return tensors;
}

}  // namespace

void bind_walks(torch::Library& m) {
  bind_options(m);
  auto c = m.class_<Value<WalkTable>>("WalkTable");
  c.def_static("from_tensors", table_of);
  c.def_static("sample", [](const Ref<Graph>& graph, const OptionsRef& options) {
    return hold(sample_walks(graph->value, options->value));
  });
  c.def_static("from_walks", [](const Ref<Graph>& graph, const at::Tensor& nodes, const OptionsRef& options,
                                const std::optional<at::Tensor>& loads) {
    return hold(walk_table_from_walks(graph->value, nodes, options->value, or_undefined(loads)));
  });
  c.def_static("load", [](const std::string& path) { return hold(load_walks(path)); });
  c.def("tensors", [](const WalksRef& self) { return table_tensors(self->value); })
      .def("options", [](const WalksRef& self) { return hold(self->value.options()); })
      .def("sampled", [](const WalksRef& self) { return self->value.sampled(); })
      .def("max_hops", [](const WalksRef& self) { return self->value.max_hops(); })
      .def("groups", [](const WalksRef& self) { return self->value.groups(); })
      .def("independent_pairs", [](const WalksRef& self) { return self->value.independent_pairs(); })
      .def("pattern", [](const WalksRef& self) { return hold(self->value.pattern()); })
      .def("feature_offsets", [](const WalksRef& self) { return self->value.feature_offsets(); })
      .def("kept_loads", [](const WalksRef& self) { return self->value.kept_loads(); })
      .def("to", [](const WalksRef& self, std::optional<at::Device> device,
                    std::optional<at::ScalarType> dtype) { return hold(self->value.to(target_of(device, dtype))); })
      .def("extend", [](const WalksRef& self, const Ref<Graph>& graph,
                        int64_t more) { return hold(extend_walks(self->value, graph->value, more)); })
      .def("resample",
           [](const WalksRef& self, const Ref<Graph>& before, const Ref<Graph>& after,
              const std::optional<at::Tensor>& proposal_weights) {
             auto resampled = resample_walks(self->value, before->value, after->value, or_undefined(proposal_weights));
             return std::make_tuple(hold(std::move(resampled.table)), resampled.rows);
           })
      .def("with_exact_head", [](const WalksRef& self,
                                 const Ref<Graph>& graph) { return hold(with_exact_head(self->value, graph->value)); })
      .def("walk_features", [](const WalksRef& self, const at::Tensor& f) { return walk_features(self->value, f); })
      .def("adhoc_features", [](const WalksRef& self, const at::Tensor& f) { return adhoc_features(self->value, f); })
      .def("walk_frequencies",
           [](const WalksRef& self, const std::optional<at::Tensor>& discount) {
             return walk_frequencies(self->value, or_undefined(discount));
           })
      .def("attention_flops",
           [](const WalksRef& self, int64_t features, int64_t value_dim) {
             const AttentionFlops flops = attention_flops(self->value, features, value_dim);
             return std::make_tuple(flops.softmax, flops.linear, flops.grf);
           })
      .def("save", [](const WalksRef& self, const std::string& path) { save_walks(self->value, path); });
}

}  // namespace topomask::python
