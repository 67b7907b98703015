#include <ATen/ATen.h>
#include <topomask/topomask.h>

#include <iostream>

using namespace topomask;

int main() {
  const Graph graph = Graph::grid({128, 128}).normalised(0.9);  // an image's tokens; W_ij = 0.9/√(d_i d_j)
  const at::Tensor alpha = at::tensor({1.0F, 0.5F, 0.25F, 0.125F}).requires_grad_();
  const MaskPtr mask = power_series_mask(graph, alpha);  // M = Σ_k α_k W^k, exact, never formed
  const at::Tensor q = at::randn({2, 128 * 128, 64}), k = at::randn_like(q), v = at::randn_like(q);
  const at::Tensor out = attention(q, k, v, mask, {.features = FeatureMap::relu()});
  out.sum().backward();  // also to q, k and v where they require it
  std::cout << out.sizes() << ", gradient of alpha " << alpha.grad().sizes() << '\n' << explain(q, k, v, mask);
}
