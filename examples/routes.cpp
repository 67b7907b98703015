// The routes of masked attention, in a minute: exact, fast, and following the graph.
//
//   routes [FOLDER [GRAPH]]     pictures go to FOLDER (default: .); GRAPH is a file of yours to try in place of the
//   karate club

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <sstream>

#include "karate_club.h"
#include "peak_memory.h"
#include "topomask/data/image.h"
#include "topomask/topomask.h"

using namespace topomask;

namespace {

double median_milliseconds(const std::function<void()>& call) {
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    if (i == 2 && times[2] > 300) break;  // slow ones need no nine
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// 1. Every route gives the attention that the definition gives.
void check_routes(const Graph& graph, const std::string& name) {
  std::cout
      << "1. " << name << ": " << graph.num_nodes() << " nodes, " << graph.num_edges() << " edges\n"
      << "   mask M = sum_k alpha_k W^k (3 hops), attention by every route against the N x N definition in double\n";
  const at::Tensor alpha = at::tensor({1.0, 0.8, 0.4, 0.2}, at::kDouble);
  const MaskPtr exact = power_series_mask(graph.to(at::kDouble).normalised(0.9), alpha), mask = exact->to(at::kFloat);
  const at::Tensor q = at::randn({graph.num_nodes(), 16}), k = at::randn({graph.num_nodes(), 16}),
                   v = at::randn({graph.num_nodes(), 16});
  const at::Tensor weights = exact->dense() * at::matmul(q.to(at::kDouble).relu(), k.to(at::kDouble).relu().mT());
  const at::Tensor expected = at::matmul(weights, v.to(at::kDouble)) / weights.sum(-1, true).clamp_min(1e-6);
  for (Route route : {Route::dense, Route::sparse, Route::features, Route::operator_}) {
    const at::Tensor out = attention(q, k, v, mask, {.features = FeatureMap::relu(), .route = route});
    std::printf("   %-9s largest difference %.1e\n", to_string(route), (out - expected).abs().max().item<double>());
  }
}

struct Row {
  const char* name;
  std::function<at::Tensor()> forward;
};

/// Prints a row; the last column is its forward time over `reference`, or over itself where that is 0. Returns the
/// time.
double print_row(const Row& row, const std::vector<at::Tensor>& inputs, double reference) {
  double forward = 0;
  int64_t bytes = 0;
  {
    const at::NoGradGuard no_grad;
    forward = median_milliseconds(row.forward);
    bytes = bench::peak_bytes([&] { row.forward(); });
  }
  const double both = median_milliseconds([&] {
    const at::Tensor out = row.forward();
    torch::autograd::grad({out}, inputs, {at::ones_like(out)});
  });
  std::printf("   %-42s %9.2f ms %9.1f ms %10.1f MiB %8.1fx\n", row.name, forward, both,
              static_cast<double>(bytes) / (1 << 20), reference > 0 ? forward / reference : 1.0);
  std::fflush(stdout);
  return forward;
}

/// 3. Comparison with torch's own attention, on one image of side x side tokens.
void compare(int64_t side) {
  const int64_t nodes = side * side;
  const Graph graph = Graph::grid({side, side}).normalised(0.9);
  const MaskPtr mask = power_series_mask(graph, at::tensor({1.0F, 0.5F, 0.25F, 0.125F}));
  const auto input = [&] { return (at::rand({1, 1, nodes, 64}) + 0.1).requires_grad_(); };
  const at::Tensor q = input(), k = input(), v = input();
  const AttentionOptions options{.features = FeatureMap::identity()};
  const at::Tensor dense = mask->dense(), bias = dense.log().view({1, 1, nodes, nodes});
  const Row ours{"topomask, planned", [&] { return attention(q, k, v, mask, options); }};
  std::printf("   N = %ld\n", static_cast<long>(nodes));
  const double reference = print_row(ours, {q, k, v}, 0);
  print_row({"torch, the same by N x N matrices",
             [&] {
               const at::Tensor weights = at::matmul(q, k.mT()) * dense;
               return at::matmul(weights, v) / weights.sum(-1, true);
             }},
            {q, k, v}, reference);
  print_row({"torch, softmax with the mask (SDPA)", [&] { return at::scaled_dot_product_attention(q, k, v, bias); }},
            {q, k, v}, reference);
  print_row({"torch, linear attention without a mask",
             [&] { return at::matmul(q, at::matmul(k.mT(), v)) / at::matmul(q, k.sum(-2, true).mT()); }},
            {q, k, v}, reference);
}

/// 4. Rows of masks over a walled room: what one token sees. The mask bends round walls; a distance in the plane would
/// not.
void draw(const std::string& path) {
  constexpr int64_t kSide = 48;
  at::Tensor open = at::ones({kSide, kSide}, at::kBool);
  open.slice(0, 8, 40).select(1, 16).fill_(false);
  open.select(0, 24).slice(0, 16, 34).fill_(false);
  open.slice(0, 0, 30).select(1, 36).fill_(false);
  const at::Tensor nodes = open.flatten().nonzero().flatten();
  const Graph room = induced_subgraph(Graph::grid({kSide, kSide}), nodes).normalised(1.0);
  const auto diffusion = [&](double time, int64_t terms) {  // e^{-t(1 - W)} as a series
    std::vector<float> alpha{static_cast<float>(std::exp(-time))};
    for (int64_t k = 1; k < terms; ++k)
      alpha.push_back(alpha.back() * static_cast<float>(time / static_cast<double>(k)));
    return power_series_mask(room, at::tensor(alpha));
  };
  const std::vector<MaskPtr> masks{neighbours_mask(room), power_series_mask(room, at::ones({7})), diffusion(40, 110)};
  std::vector<at::Tensor> drawn;
  for (const auto& [y, x] : {std::pair{20, 13}, {27, 19}, {12, 39}}) {
    const int64_t token = (nodes == y * kSide + x).nonzero().item<int64_t>();
    for (const MaskPtr& mask : masks) {
      at::Tensor one = at::zeros({room.num_nodes(), 1});
      one[token] = 1;
      const at::Tensor row = mask->matmul_transposed(one).flatten();
      const at::Tensor level = (1 + (row / row.max()).clamp_min(1e-4).log10() / 4) * (row > 0);  // four decades
      drawn.push_back(colour_map(at::full({kSide * kSide}, NAN).index_copy_(0, nodes, level).view({kSide, kSide})));
    }
  }
  write_png(path, panels(drawn, static_cast<int64_t>(masks.size()), 5));
  std::cout
      << "4. mask rows of three tokens in a room with walls, " << room.num_nodes() << " nodes: " << path << "\n"
      << "   left: neighbours; middle: power series, 6 hops; right: diffusion, 109 hops. Brightness: four decades\n";
}

int run(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  std::filesystem::create_directories(folder);
  std::cout << "topomask " << TOPOMASK_VERSION << ", " << at::get_num_threads() << " threads\n\n";
  if (argc > 2)
    check_routes(read_graph(argv[2]), argv[2]);
  else
    check_routes(examples::karate_club(), "Zachary's karate club");

  std::cout << "\n2. the planner, for one head over 128 x 128 tokens\n";
  const MaskPtr mask = power_series_mask(Graph::grid({128, 128}).normalised(0.9), at::ones({4}));
  const at::Tensor x = at::rand({128 * 128, 64});
  std::ostringstream plan;
  plan << explain(x, x, x, mask);
  std::istringstream lines(plan.str());
  for (std::string line; std::getline(lines, line);) std::cout << "   " << line << '\n';

  std::cout << "\n3. compared with torch, one head, m = d = 64, float32, exact mask of 3 hops on a grid\n";
  std::printf("   %-42s %12s %12s %14s %9s\n", "", "forward", "+ backward", "extra memory", "forward");
  for (int64_t side : {32, 64, 96}) compare(side);
  std::cout << '\n';
  draw(folder + "/mask_rows.png");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const c10::Error& error) {
    std::cerr << "routes: " << error.what_without_backtrace() << '\n';
  } catch (const std::exception& error) {
    std::cerr << "routes: " << error.what() << '\n';
  }
  return 1;
}
