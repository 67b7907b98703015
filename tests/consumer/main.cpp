#include <ATen/ATen.h>
#include <topomask/topomask.h>

#include <iostream>

// What a user's program looks like: nothing but the installed package.
int main() {
  const topomask::Graph graph = topomask::Graph::grid({4, 5}).normalised(0.5);
  const topomask::MaskPtr mask = topomask::power_series_mask(graph, at::ones({3}));
  const at::Tensor x = at::rand({2, graph.num_nodes(), 8});
  std::cout << topomask::attention(x, x, x, mask).sizes() << '\n';
}
