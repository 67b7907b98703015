#include "support/devices.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include "nn/graph_models/sets.h"
#include "tasks/autocast.h"

namespace topomask::testing {
namespace {

/// Away from the first weights, with which logits are small.
void shake(GraphModel& model) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(3);
  for (auto& item : model.named_parameters()) {
    const double size = item.key().find("mask.") != std::string::npos ? 0.1 : 0.3;
    item.value().add_(size * at::randn(item.value().sizes(), generator, item.value().options()));
  }
}

TEST(GraphModelDevices, GiveTheSameLogitsAndGradientsOnAGpu) {
  if (!has_cuda()) GTEST_SKIP() << "no GPU";
  const at::Device cuda(at::kCUDA, 0);
  for (const Named& named : models_of_every_kind()) {
    SCOPED_TRACE(named.name);
    const GraphSet set = set_for(named);
    auto options = named.options;
    if (options.kind == "transformer") options.max_degree = options.laplacian_positions = options.wire = 3;
    const auto here = double_model(options), there = double_model(options);
    here->eval();
    there->eval();
    there->to(cuda);
    const std::vector<int64_t> graphs{3, 0, 2};
    const GraphStructure structure = take(here->structure(set), set, graphs);
    const GraphSample sample = sample_of(set, graphs);
    GraphSample moved = sample;
    moved.graph = sample.graph.to(cuda);
    moved.features = sample.features.to(cuda);
    moved.membership = sample.membership.to(cuda);
    const at::Tensor expected = here->forward(sample, structure), actual = there->forward(moved, structure.to(cuda));
    EXPECT_TRUE(close(actual.cpu(), expected, 1e-9));
    const at::Tensor cotangent = at::randn_like(expected);
    const auto wanted = gradients(expected, cotangent, here->parameters());
    const auto grads = gradients(actual, cotangent.to(cuda), there->parameters());
    for (size_t p = 0; p < grads.size(); ++p) EXPECT_TRUE(close(grads[p].cpu(), wanted[p], 1e-8, 1e-3));
  }
}

/// Training on a GPU computes like this: no part may refuse it, and masks and sums stay in float32.
TEST(GraphModelDevices, ComputeInBfloat16ByAutocast) {
  for (const Named& named : models_of_every_kind()) {
    SCOPED_TRACE(named.name);
    const GraphSet set = set_for(named);
    auto options = named.options;
    options.features = 5;
    options.classes = 3;
    options.feature_offset = 0.5;  // features near 0 would make rows of attention that rounding decides
    const auto model = make_graph_model(options, 7);
    shake(*model);
    GraphSample sample = sample_of(set, {0, 1});
    sample.features = sample.features.to(at::kFloat);
    const GraphStructure structure = take(model->structure(set), set, {0, 1}).to(at::kFloat);
    const at::Tensor labels = at::tensor({0, 2}, at::kLong);
    const auto gradient_of = [&](const at::Tensor& logits) {
      std::vector<at::Tensor> all;
      const at::Tensor loss = at::cross_entropy_loss(logits.to(at::kFloat), labels);
      for (const at::Tensor& g : gradients(loss, at::ones({}), model->parameters())) all.push_back(g.flatten());
      return at::cat(all);
    };
    const at::Tensor exact = model->forward(sample, structure);
    at::Tensor logits;
    {
      const Autocast autocast(at::kCPU, "bfloat16");
      logits = model->forward(sample, structure);
    }
    EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
    // A bfloat16 is rounded by 2⁻⁹ at most. Some twenty roundings follow one another in two layers and the readout;
    // errors of products average out, and each weighs as much as what it is added to. The backward pass has twice as
    // many, and rounding can switch the slope of a ReLU on or off.
    constexpr double kRounding = 1.0 / 512;
    EXPECT_GT(exact.abs().max().item<double>(), 0.3);
    EXPECT_TRUE(close(logits, exact, 20 * kRounding)) << logits << exact;
    const at::Tensor expected = gradient_of(exact), actual = gradient_of(logits);
    EXPECT_LT(((actual - expected).norm() / expected.norm()).item<double>(), 60 * kRounding);
  }
}

}  // namespace
}  // namespace topomask::testing
