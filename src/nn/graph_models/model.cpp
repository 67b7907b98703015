#include <ATen/ATen.h>

#include "nn/graph/attention_probe.h"
#include "topomask/nn/graph_mask.h"
#include "topomask/nn/graph_model.h"

namespace topomask {

GraphStructure GraphModel::structure(const GraphSet& set, NodeRows positions) const {
  GraphStructure structure{.node = std::move(positions)};
  prepare(set, structure);
  return structure;
}

NodeRows GraphModel::positions(const GraphSet&) const {
  return {};
}

void GraphModel::prepare(const GraphSet&, GraphStructure&) const {}

at::Tensor GraphModel::attention_rows(const GraphSample& sample, const GraphStructure& structure, int64_t node) {
  TORCH_CHECK(node >= 0 && node < sample.graph.num_nodes(), "attention_rows: node must be in [0, ",
              sample.graph.num_nodes(), "), got ", node);
  const at::NoGradGuard no_grad;
  AttentionProbe probe(node);
  forward(sample, structure);
  return probe.rows();
}

bool GraphModel::start_epoch(int64_t epoch) {
  if (options_.resample != "epoch" || epoch == epoch_) return false;
  epoch_ = epoch;
  return true;
}

int64_t GraphModel::parameter_count() const {
  int64_t count = 0;
  for (const at::Tensor& p : parameters()) count += p.numel();
  return count;
}

void GraphMask::prepare(const GraphSet&, int64_t, GraphStructure&) const {}

at::Tensor GraphMask::learnt(const std::string& name, const at::Tensor& start) {
  return setting_.options.learn_mask ? register_parameter(name, start) : register_buffer(name, start);
}

FunctionGraphMask::FunctionGraphMask(const GraphMaskSetting& setting, const std::string& name) : GraphMask(setting) {
  const GraphModelOptions& options = setting.options;
  const at::Tensor log = (at::arange(terms(), at::kFloat) * -options.decay).repeat({setting.heads, 1});
  learned_ = options.positive_mask ? learnt("log_" + name, log) : learnt(name, log.exp());
}

at::Tensor FunctionGraphMask::f() const {
  return setting().options.positive_mask ? learned_.exp() : learned_;
}

at::TensorOptions FunctionGraphMask::working_type() const {
  return at::device(learned_.device()).dtype(learned_.scalar_type());
}

}  // namespace topomask
