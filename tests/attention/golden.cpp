#include "support/golden.h"

#include "support/compare.h"
#include "topomask/topomask.h"

namespace topomask {
namespace {

using testing::close;
using testing::golden;
using testing::gradients;

constexpr double kTolerance = 1e-10;
constexpr const char* kCases[] = {"path7", "grid5x6", "tree15", "er30", "digraph12"};

/// A case of attention_*: the graph with its weights, and leaves that require gradients.
struct Case {
  explicit Case(const std::string& name) : data(golden("attention_" + name)), graph(read(data, name == "digraph12")) {
    alpha = data["alpha"].clone().requires_grad_();
    q = data["q"].clone().requires_grad_();
    k = data["k"].clone().requires_grad_();
    v = data["v"].clone().requires_grad_();
    mask = power_series_mask(graph, alpha);
  }

  static Graph read(std::map<std::string, at::Tensor>& data, bool directed) {
    const at::Tensor &source = data["src"], &target = data["dst"];
    const at::Tensor weights = data["w"].index({source, target});
    return Graph::from_edges(data["w"].size(0), source, target, weights, {.directed = directed});
  }

  std::map<std::string, at::Tensor> data;
  Graph graph;
  at::Tensor alpha, q, k, v;
  MaskPtr mask;
};

TEST(Golden, GraphsHaveTheWeightsOfTheFiles) {
  for (const char* name : kCases) {
    Case c(name);
    EXPECT_TRUE(close(c.graph.matrix().dense(), c.data["w"], kTolerance)) << name;
    if (!c.graph.directed()) {
      EXPECT_TRUE(close(c.graph.normalised(0.9).matrix().dense(), c.data["w"], kTolerance)) << name;
    }
  }
}

TEST(Golden, PowerSeriesMasks) {
  for (const char* name : kCases) {
    Case c(name);
    EXPECT_TRUE(close(c.mask->dense(), c.data["mask"], kTolerance)) << name;
    const at::Tensor eye = at::eye(c.graph.num_nodes(), at::kDouble).expand_as(c.data["mask"]);
    EXPECT_TRUE(close(c.mask->matmul(eye), c.data["mask"], kTolerance)) << name;
    EXPECT_TRUE(close(c.mask->matmul_transposed(eye), c.data["mask"].mT(), kTolerance)) << name;
  }
}

TEST(Golden, KernelAttentionByEveryRoute) {
  for (const char* name : kCases) {
    for (Route route : {Route::automatic, Route::dense, Route::sparse, Route::features, Route::operator_}) {
      SCOPED_TRACE(std::string(name) + ", route " + to_string(route));
      Case c(name);
      const at::Tensor out = attention(c.q, c.k, c.v, c.mask, {.features = FeatureMap::relu(1e-3), .route = route});
      EXPECT_TRUE(close(out, c.data["out"], kTolerance));
      const auto grads = gradients(out, c.data["g"], {c.q, c.k, c.v, c.alpha});
      EXPECT_TRUE(close(grads[0], c.data["grad_q"], kTolerance));
      EXPECT_TRUE(close(grads[1], c.data["grad_k"], kTolerance));
      EXPECT_TRUE(close(grads[2], c.data["grad_v"], kTolerance));
      EXPECT_TRUE(close(grads[3], c.data["grad_alpha"], kTolerance));
    }
  }
}

TEST(Golden, AdditiveSoftmaxAttention) {
  for (const char* name : kCases) {
    SCOPED_TRACE(name);
    Case c(name);
    const at::Tensor out = softmax_attention(c.q, c.k, c.v, c.mask, {.mask = SoftmaxMask::additive});
    EXPECT_TRUE(close(out, c.data["softmax_out"], kTolerance));
    const auto grads = gradients(out, c.data["g"], {c.q, c.k, c.v, c.alpha});
    EXPECT_TRUE(close(grads[0], c.data["softmax_grad_q"], kTolerance));
    EXPECT_TRUE(close(grads[1], c.data["softmax_grad_k"], kTolerance));
    EXPECT_TRUE(close(grads[2], c.data["softmax_grad_v"], kTolerance));
    EXPECT_TRUE(close(grads[3], c.data["softmax_grad_alpha"], kTolerance));
  }
}

TEST(Golden, UnmaskedLinearAttention) {
  for (const char* name : kCases) {
    Case c(name);
    for (Route route : {Route::automatic, Route::features, Route::operator_, Route::dense}) {
      const at::Tensor out = attention(c.q, c.k, c.v, none_mask(c.graph.num_nodes()),
                                       {.features = FeatureMap::relu(1e-3), .route = route});
      EXPECT_TRUE(close(out, c.data["linear_out"], kTolerance)) << name << ", route " << to_string(route);
    }
  }
}

TEST(Golden, FavorFeatures) {
  auto data = golden("favor");
  EXPECT_TRUE(close(FeatureMap::favor(data["omega"])(data["x"]), data["features"], kTolerance));
}

}  // namespace
}  // namespace topomask
