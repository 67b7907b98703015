#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "nn/graph_models/dense_masks.h"
#include "topomask/feature_map.h"

// Every kind of model, with every mask, against a dense double-precision computation from the same parameters: logits
// and the gradients of all parameters. The reference reads parameters by name.

namespace topomask::testing {
namespace {

class Weights {
 public:
  explicit Weights(const GraphModel& model) {
    for (const auto& item : model.named_parameters()) named_[item.key()] = item.value();
  }
  at::Tensor operator()(const std::string& name) const {
    const auto found = named_.find(name);
    return found == named_.end() ? at::Tensor() : found->second;
  }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    const at::Tensor bias = (*this)(name + ".bias"), y = x.matmul((*this)(name + ".weight").t());
    return bias.defined() ? y + bias : y;
  }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    const at::Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * (*this)(name + ".weight") +
           (*this)(name + ".bias");
  }
  at::Tensor mask_parameter(const std::string& prefix) const {
    for (const auto& [name, value] : named_) {
      if (name.starts_with(prefix + "mask.")) return value;
    }
    return {};
  }

 private:
  std::map<std::string, at::Tensor> named_;
};

at::Tensor mean_rows(const GraphSet& set, const at::Tensor& x) {
  std::vector<at::Tensor> means;
  for (int64_t g = 0; g < set.size(); ++g) {
    means.push_back(x.slice(0, set.offsets[g].item<int64_t>(), set.offsets[g + 1].item<int64_t>()).mean(0));
  }
  return at::stack(means);
}

at::Tensor by_head(const at::Tensor& x, int64_t heads) {
  return x.view({x.size(0), heads, -1}).transpose(0, 1);
}

at::Tensor dense_transformer(const GraphModel& model, const GraphSet& set) {
  const GraphModelOptions& o = model.options();
  const Weights w(model);
  at::Tensor x = w.linear("embedding", set.features);
  for (int64_t l = 0; l < o.layers; ++l) {
    const std::string block = "block" + std::to_string(l) + ".";
    const auto qkv = w.linear(block + "attention.qkv", w.norm(block + "attention_norm", x)).chunk(3, 1);
    const at::Tensor q = by_head(qkv[0], o.heads), k = by_head(qkv[1], o.heads), v = by_head(qkv[2], o.heads);
    const at::Tensor mask = dense_graph_mask(model, set, w.mask_parameter(block + "attention."));
    const int64_t dim = o.width / o.heads;
    const auto phi = [&](const at::Tensor& y) {
      if (o.attention == "relu") return at::relu(y) + o.feature_offset;
      if (o.attention == "elu") return at::elu(y) + 1;
      return FeatureMap::favor(dim, dim, {.seed = model.seed() + static_cast<uint64_t>(l)})(y);
    };
    const at::Tensor scores = o.attention == "softmax"
                                  ? (at::matmul(q, k.mT()) / std::sqrt(static_cast<double>(dim))).exp()
                                  : at::matmul(phi(q), phi(k).mT());
    const at::Tensor weights = scores * mask;
    const at::Tensor heads = at::matmul(weights / weights.sum(-1, true), v);
    x = x + w.linear(block + "attention.projection", heads.transpose(0, 1).flatten(1));
    x = x + w.linear(block + "contract", at::gelu(w.linear(block + "expand", w.norm(block + "perceptron_norm", x))));
  }
  return w.linear("readout.head", mean_rows(set, w.norm("norm", x)));
}

at::Tensor dense_stack(const GraphModel& model, const GraphSet& set) {
  const GraphModelOptions& o = model.options();
  const Weights w(model);
  const at::Tensor a = (set.graph.matrix().dense() != 0).to(at::kDouble), eye = at::eye(a.size(0), at::kDouble);
  const at::Tensor degree = a.sum(1, true), looped = a + eye, root = looped.sum(1).rsqrt();
  const at::Tensor smooth = root.unsqueeze(1) * looped * root;
  const at::Tensor plain = degree.clamp_min(1).rsqrt() * a * degree.clamp_min(1).rsqrt().t();
  at::Tensor x = set.features;
  const int64_t layers = o.kind == "sgc" ? 1 : o.layers;
  for (int64_t l = 0; l < layers; ++l) {
    const std::string layer = "layer" + std::to_string(l) + ".", conv = layer + "conv.";
    if (o.kind == "gcn") {
      x = at::relu(smooth.mm(w.linear(conv + "lin", x)) + w(conv + "bias"));
    } else if (o.kind == "sgc") {
      x = w.linear(conv + "lin", at::linalg_matrix_power(smooth, o.layers).mm(x));
    } else if (o.kind == "cheb") {
      x = at::relu(w.linear(conv + "lins_0", x) - w.linear(conv + "lins_1", plain.mm(x)) + w(conv + "bias"));
    } else if (o.kind == "sage") {
      x = at::relu(w.linear(conv + "lin_l", a.mm(x) / degree.clamp_min(1)) + w.linear(conv + "lin_r", x));
    } else if (o.kind == "gin") {
      const at::Tensor sum = (1 + w(conv + "eps")) * x + a.mm(x);
      x = at::relu(w.linear(conv + "nn.2", at::relu(w.linear(conv + "nn.0", sum))));
    } else if (o.kind == "gat") {
      const at::Tensor y = by_head(w.linear(conv + "lin", x), o.heads);
      const at::Tensor from = (y * w(conv + "att_src").transpose(0, 1)).sum(-1);
      const at::Tensor to = (y * w(conv + "att_dst").transpose(0, 1)).sum(-1);
      const at::Tensor scores = at::leaky_relu(to.unsqueeze(2) + from.unsqueeze(1), 0.2);
      const at::Tensor weights = at::softmax(scores.masked_fill(looped == 0, -INFINITY), -1);
      x = at::elu(at::matmul(weights, y).transpose(0, 1).flatten(1) + w(conv + "bias"));
    } else if (o.kind == "transformer_conv") {
      const auto part = [&](const char* name) { return by_head(w.linear(conv + name, x), o.heads); };
      const at::Tensor scores =
          at::matmul(part("lin_query"), part("lin_key").mT()) / std::sqrt(static_cast<double>(o.width));
      const at::Tensor weights = scores.exp() * a, sums = weights.sum(-1, true);
      const at::Tensor heads = at::matmul(weights / at::where(sums == 0, 1.0, sums), part("lin_value"));
      x = at::relu(heads.transpose(0, 1).flatten(1) + w.linear(conv + "lin_skip", x));
    } else {
      const at::Tensor mask = dense_graph_mask(model, set, w.mask_parameter(layer));
      const at::Tensor scores = at::matmul(at::matmul(x, w(conv + "wq")), at::matmul(x, w(conv + "wk")).mT());
      const at::Tensor weights = (scores / std::sqrt(static_cast<double>(o.width))).exp() * mask;
      const at::Tensor heads = at::matmul(weights / weights.sum(-1, true), at::matmul(x, w(conv + "wv")));
      x = at::elu(heads.transpose(0, 1).flatten(1));
    }
  }
  return w.linear("readout.head", mean_rows(set, x));
}

TEST(GraphModels, EqualDenseReferencesWithAllGradients) {
  for (const Named& named : models_of_every_kind()) {
    if (named.options.mask == "spanning_forest") continue;  // a test of its own
    SCOPED_TRACE(named.name);
    const GraphSet set = set_for(named);
    const auto model = double_model(named.options);
    // Masks whose functions differ between heads and are not the first ones.
    {
      const at::NoGradGuard no_grad;
      for (auto& item : model->named_parameters()) {
        if (item.key().find("mask.") != std::string::npos) item.value().mul_(1 + 0.3 * at::rand_like(item.value()));
      }
    }
    const at::Tensor actual = run(*model, set, all_of(set));
    const at::Tensor expected =
        named.options.kind == "transformer" ? dense_transformer(*model, set) : dense_stack(*model, set);
    EXPECT_TRUE(close(actual, expected, 1e-9));
    const at::Tensor cotangent = at::randn_like(expected);
    const auto parameters = model->parameters();
    const auto grads = gradients(actual, cotangent, parameters), wanted = gradients(expected, cotangent, parameters);
    for (size_t p = 0; p < grads.size(); ++p) {
      EXPECT_TRUE(close(grads[p], wanted[p], 1e-8, 1e-3)) << model->named_parameters().keys()[p];
    }
  }
}

TEST(GraphModels, AreTheSameBeyondWhatIsKept) {
  const GraphSet set = small_set();
  for (const char* mask : {"series", "gkat", "frequency", "sequence"}) {
    SCOPED_TRACE(mask);
    GraphModelOptions o;
    o.kind = "transformer";
    o.width = 8;
    o.mask = mask;
    const auto kept = double_model(o);
    EXPECT_EQ(kept->structure(set).matrices.size(), 1U);
    o.max_entries = 20;
    const auto not_kept = double_model(o);
    EXPECT_EQ(not_kept->structure(set).matrices.size(), 0U);
    const at::Tensor expected = run(*kept, set, {4, 0, 1}), actual = run(*not_kept, set, {4, 0, 1});
    EXPECT_TRUE(close(actual, expected, 1e-12));
    const at::Tensor cotangent = at::randn_like(expected);
    const auto wanted = gradients(expected, cotangent, kept->parameters());
    const auto grads = gradients(actual, cotangent, not_kept->parameters());
    for (size_t p = 0; p < grads.size(); ++p) EXPECT_TRUE(close(grads[p], wanted[p], 1e-10, 1e-3));
  }
}

TEST(GraphModels, ASpanningForestOfATreeIsTheTree) {
  GraphModelOptions o;
  o.kind = "transformer";
  o.width = 8;
  o.mask = "forest";
  const GraphSet set = tree_set();
  GraphSet without = set;
  without.parents = at::Tensor();
  const at::Tensor expected = run(*double_model(o), set, all_of(set));
  EXPECT_TRUE(close(run(*double_model(o), without, all_of(set)), expected, 1e-12));
  o.mask = "spanning_forest";
  EXPECT_TRUE(close(run(*double_model(o), without, all_of(set)), expected, 1e-12));
}

}  // namespace
}  // namespace topomask::testing
