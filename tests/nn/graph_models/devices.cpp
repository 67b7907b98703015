#include "support/devices.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include "nn/graph_models/sets.h"

namespace topomask::testing {
namespace {

TEST(GraphModelDevices, GiveTheSameLogitsAndGradientsOnAGpu) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const at::Device gpu(at::kCUDA, 0);
  for (const Named& named : models_of_every_kind()) {
    SCOPED_TRACE(named.name);
    const GraphSet set = set_for(named);
    auto options = named.options;
    if (options.kind == "transformer") options.max_degree = options.laplacian_positions = options.wire = 3;
    const auto here = double_model(options), there = double_model(options);
    here->eval();
    there->eval();
    there->to(gpu);
    const std::vector<int64_t> graphs{3, 0, 2};
    const GraphStructure structure = take(here->structure(set), set, graphs);
    const GraphSample sample = sample_of(set, graphs);
    GraphSample moved = sample;
    moved.graph = sample.graph.to(gpu);
    moved.features = sample.features.to(gpu);
    moved.membership = sample.membership.to(gpu);
    const at::Tensor expected = here->forward(sample, structure), actual = there->forward(moved, structure.to(gpu));
    EXPECT_TRUE(close(actual.cpu(), expected, 1e-9));
    const at::Tensor cotangent = at::randn_like(expected);
    const auto wanted = gradients(expected, cotangent, here->parameters());
    const auto grads = gradients(actual, cotangent.to(gpu), there->parameters());
    for (size_t p = 0; p < grads.size(); ++p) EXPECT_TRUE(close(grads[p].cpu(), wanted[p], 1e-8, 1e-3));
  }
}

/// Training on a GPU computes so: no part may refuse it, and masks and sums stay in float32.
TEST(GraphModelDevices, ComputeInBfloat16ByAutocast) {
  for (const Named& named : models_of_every_kind()) {
    SCOPED_TRACE(named.name);
    const GraphSet set = set_for(named);
    auto options = named.options;
    options.features = 5;
    options.classes = 3;
    const auto model = make_graph_model(options, 7);
    GraphSample sample = sample_of(set, {0, 1});
    sample.features = sample.features.to(at::kFloat);
    const GraphStructure structure = take(model->structure(set), set, {0, 1}).to(at::kFloat);
    const at::Tensor expected = model->forward(sample, structure);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::Tensor logits;
    try {
      logits = model->forward(sample, structure).to(at::kFloat);
    } catch (const c10::Error& error) {
      ADD_FAILURE() << error.what_without_backtrace();
    }
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    EXPECT_TRUE(close(logits, expected, 0.1, 1.0));  // a relu near 0 can turn a row of attention by more than rounding
  }
}

}  // namespace
}  // namespace topomask::testing
