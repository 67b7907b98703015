#include "topomask/diffusion.h"

#include <ATen/Parallel.h>

#include "masks/diffusion/chebyshev.h"
#include "masks/diffusion/generator.h"
#include "support/compare.h"
#include "support/golden.h"
#include "support/mask_contract.h"
#include "topomask/attention.h"
#include "topomask/global_tokens.h"

namespace topomask {
namespace {

using testing::close;
using testing::expect_mask_is;
using testing::gradients;
using testing::normal;

constexpr Generator kGenerators[] = {Generator::adjacency, Generator::laplacian, Generator::normalised_laplacian};
constexpr DiffusionMethod kMethods[] = {DiffusionMethod::chebyshev, DiffusionMethod::lanczos};

/// T by its definition, dense.
at::Tensor generator_of(const Graph& graph, Generator generator) {
  const at::Tensor a = graph.to(at::kDouble).matrix().dense(), degrees = a.sum(1);
  if (generator == Generator::adjacency) return -a;
  if (generator == Generator::laplacian) return degrees.diag() - a;
  const at::Tensor root = at::where(degrees > 0, degrees.rsqrt(), 0.0);
  return (degrees > 0).to(at::kDouble).diag() - root.unsqueeze(1) * a * root;
}

/// exp(−λT) for λ [] or [H], differentiable.
at::Tensor matrix_exponential(const at::Tensor& generator, const at::Tensor& lambda) {
  return at::linalg_matrix_exp(-lambda.unsqueeze(-1).unsqueeze(-1) * generator);
}

at::Tensor learnt_scalar(double value) {
  return at::scalar_tensor(value, at::kDouble).requires_grad_();
}

std::vector<Graph> graphs() {
  const at::Tensor points = normal({23, 2}, 1);
  const at::Tensor source = at::tensor({0, 0, 1, 3, 4}, at::kLong), target = at::tensor({1, 2, 2, 3, 5}, at::kLong);
  const at::Tensor weights = at::tensor({0.5, 2.0, 0.3, 1.5, 0.1}, at::kDouble);
  std::vector<Graph> result{Graph::path(1),
                            Graph::path(2),
                            Graph::path(7),
                            Graph::grid({4, 5}),
                            Graph::star(9),
                            Graph::complete(6),
                            Graph::erdos_renyi(30, 0.05, 3),
                            Graph::knn(points, {.k = 3}),
                            Graph::from_edges(7, source, target, weights)};
  for (Graph& graph : result) graph = graph.to(at::kDouble);
  return result;
}

TEST(Diffusion, MatchesReferenceValues) {
  const std::map<std::string, Generator> generators{{"adjacency", Generator::adjacency},
                                                    {"laplacian", Generator::laplacian},
                                                    {"normalised", Generator::normalised_laplacian}};
  for (const std::string name : {"path7", "tree15", "grid5x6", "er30"}) {
    const auto golden = testing::golden("diffusion_" + name);
    const Graph graph = Graph::from_edges(golden.at("n").item<int64_t>(), golden.at("src"), golden.at("dst"),
                                          at::ones({golden.at("src").numel()}, at::kDouble));
    for (const auto& [key, generator] : generators) {
      for (const std::string time : {"0.3", "2.0"}) {
        for (DiffusionMethod method : kMethods) {
          SCOPED_TRACE(name + " " + key + " " + time + (method == kMethods[0] ? " chebyshev" : " lanczos"));
          const at::Tensor lambda = learnt_scalar(std::stod(time));
          const MaskPtr mask = diffusion_mask(graph, lambda, {generator, 1e-13, method});
          const at::Tensor y = mask->matmul(golden.at("x"));
          EXPECT_TRUE(close(y, golden.at(key + "_" + time), 1e-10));
          EXPECT_TRUE(close(gradients(y, golden.at("gy"), {lambda})[0], golden.at(key + "_" + time + "_grad_lambda"),
                            1e-10, 1e-1));
        }
      }
    }
  }
}

TEST(Diffusion, IsTheMatrixExponential) {
  for (const Graph& graph : graphs()) {
    for (Generator generator : kGenerators) {
      const at::Tensor lambda = learnt_scalar(0.7), exact = matrix_exponential(generator_of(graph, generator), lambda);
      const MaskPtr mask = diffusion_mask(graph, lambda, {generator, 1e-14});
      if (graph.num_nodes() == 7) {
        expect_mask_is(mask, exact, 1e-9);
      } else {
        EXPECT_TRUE(close(mask->dense(), exact, 1e-12));
      }
    }
  }
}

TEST(Diffusion, HasATimePerHead) {
  const Graph graph = Graph::grid({3, 5}).to(at::kDouble);
  const at::Tensor lambda = at::tensor({0.1, 0.4, 3.0}, at::kDouble).requires_grad_();
  const at::Tensor exact = matrix_exponential(generator_of(graph, Generator::laplacian), lambda);
  expect_mask_is(diffusion_mask(graph, lambda, {Generator::laplacian, 1e-14}), exact, 1e-9);
  const MaskPtr lanczos = diffusion_mask(graph, lambda, {Generator::laplacian, 1e-14, DiffusionMethod::lanczos});
  EXPECT_TRUE(close(lanczos->dense(), exact, 1e-12));
  const at::Tensor one = at::tensor({0.4}, at::kDouble).requires_grad_();
  expect_mask_is(diffusion_mask(graph, one, {Generator::laplacian, 1e-14}),
                 matrix_exponential(generator_of(graph, Generator::laplacian), one)[0], 1e-9);
}

TEST(Diffusion, IsTheIdentityWithoutTime) {
  const Graph graph = Graph::star(6).to(at::kDouble);
  for (DiffusionMethod method : kMethods) {
    const MaskPtr mask = diffusion_mask(graph, learnt_scalar(0), {.method = method});
    EXPECT_TRUE(close(mask->dense(), at::eye(6, at::kDouble), 1e-14));
  }
}

TEST(Diffusion, KeepsItsTolerance) {
  for (const Graph& graph : {graphs()[2], graphs()[4], graphs()[6], graphs()[8]}) {
    const at::Tensor x = normal({graph.num_nodes(), 5}, 2), norms = x.norm(2, {0}, true);
    for (Generator generator : kGenerators) {
      for (double time : {0.1, 10.0}) {
        const at::Tensor exact =
            matrix_exponential(generator_of(graph, generator), at::scalar_tensor(time, at::kDouble));
        const double norm = at::linalg_matrix_norm(exact, 2).item<double>();
        for (double tolerance : {1e-2, 1e-5}) {
          for (DiffusionMethod method : kMethods) {
            const MaskPtr mask = diffusion_mask(graph, learnt_scalar(time), {generator, tolerance, method});
            const at::Tensor error = (mask->matmul(x) - at::matmul(exact, x)).norm(2, {0}, true) / (norm * norms);
            // Lanczos estimates its error; the polynomial's is bounded.
            const double factor = method == DiffusionMethod::lanczos ? 3 : 1;
            EXPECT_LE(error.max().item<double>(), factor * tolerance + 1e-13)
                << "N " << graph.num_nodes() << ", generator " << int(generator) << ", lambda " << time
                << ", tolerance " << tolerance << ", method " << int(method);
          }
        }
      }
    }
  }
}

TEST(Diffusion, BoundsTheSpectrum) {
  std::vector<Graph> all = graphs();
  all.push_back(Graph::grid({13, 21}).to(at::kDouble));
  all.push_back(Graph::star(200).to(at::kDouble));
  all.push_back(Graph::erdos_renyi(300, 0.03, 4).to(at::kDouble));
  for (const Graph& graph : all) {
    for (Generator generator : kGenerators) {
      const at::Tensor eigenvalues = at::linalg_eigvalsh(generator_of(graph, generator));
      const Spectrum spectrum = spectrum_bounds(generator_matrix("test", graph, generator), generator);
      const double lowest = eigenvalues[0].item<double>(), highest = eigenvalues[-1].item<double>();
      EXPECT_LE(spectrum.lower, lowest + 1e-9);
      EXPECT_GE(spectrum.lowest, lowest - 1e-9);
      EXPECT_GE(spectrum.upper, highest - 1e-9);
      if (generator != Generator::normalised_laplacian) {
        EXPECT_LE(spectrum.upper - spectrum.lower, 1.3 * (highest - lowest) + 1e-9) << "N " << graph.num_nodes();
      }
    }
  }
}

TEST(Diffusion, TakesSignedWeights) {
  const Graph base = Graph::grid({4, 4}).to(at::kDouble);
  const at::Tensor half = normal({16, 16}, 3), symmetric = half + half.t();
  const at::Tensor rows = at::repeat_interleave(base.offsets().diff());
  const Graph graph = base.with_weights(symmetric.index({rows, base.columns().to(at::kLong)}));
  for (Generator generator : {Generator::adjacency, Generator::laplacian}) {
    const at::Tensor lambda = learnt_scalar(0.3), x = normal({16, 3}, 4);
    const at::Tensor exact = matrix_exponential(generator_of(graph, generator), lambda);
    EXPECT_TRUE(close(diffusion_mask(graph, lambda, {generator, 1e-14})->dense(), exact, 1e-12));
  }
}

TEST(Diffusion, LeavesIsolatedNodesAlone) {
  const at::Tensor edge = at::tensor({1}, at::kLong), other = at::tensor({2}, at::kLong);
  const Graph graph = Graph::from_edges(4, edge, other).to(at::kDouble);
  for (Generator generator : kGenerators) {
    const at::Tensor dense = diffusion_mask(graph, learnt_scalar(1.5), {generator, 1e-14})->dense().detach();
    const at::Tensor identity = at::eye(4, at::kDouble);
    EXPECT_TRUE(close(dense[0], identity[0], 1e-13) && close(dense[3], identity[3], 1e-13));
  }
}

TEST(Diffusion, TakesTheLeastDegree) {
  // 2Σ_{k>K} e^{−z}I_k(z) ≤ ε with z = 4λ on a long path (0 ≤ T ≤ 4), summed the plain way.
  const auto tail = [](const std::vector<double>& terms, int64_t degree) {
    double sum = 0;
    for (size_t k = terms.size() - 1; k > static_cast<size_t>(degree); --k) sum += 2 * terms[k];
    return sum;
  };
  for (double lambda : {0.5, 5.0, 50.0}) {
    const Spectrum spectrum{0, 4, 0};
    const auto terms = scaled_bessel(2 * lambda);
    for (double tolerance : {1e-2, 1e-4, 1e-10}) {
      const auto degree = static_cast<int64_t>(chebyshev_coefficients(lambda, spectrum, tolerance).size()) - 1;
      EXPECT_LE(tail(terms, degree), tolerance);
      EXPECT_GT(tail(terms, degree - 1), tolerance);
    }
  }
  const Graph graph = Graph::path(1000);
  EXPECT_NEAR(chebyshev_degree(*diffusion_mask(graph, at::scalar_tensor(5.0), {.tolerance = 1e-4})), 13, 2);
}

TEST(Diffusion, KnowsBesselFunctions) {
  for (double z : {1e-30, 1e-9, 0.1, 1.0, 7.0, 60.0}) {
    const auto terms = scaled_bessel(z);
    double sum = terms[0];
    for (size_t k = 1; k < terms.size(); ++k) sum += 2 * terms[k];
    EXPECT_NEAR(sum, 1, 1e-14);
    for (size_t k = 0; k < std::min<size_t>(terms.size(), 5); ++k) {
      const double expected = std::cyl_bessel_i(static_cast<double>(k), z) * std::exp(-z);
      EXPECT_NEAR(terms[k], expected, 1e-12 * expected + 1e-18) << "I_" << k << "(" << z << ")";
    }
  }
  EXPECT_NEAR(scaled_bessel(1e7)[0], 1 / std::sqrt(2 * M_PI * 1e7), 1e-10);
}

TEST(Diffusion, TakesWideAndNarrowInputs) {
  const Graph graph = Graph::grid({37, 41});
  const MaskPtr mask = diffusion_mask(graph, at::scalar_tensor(1.0), {.tolerance = 1e-7});
  const MaskPtr exact = diffusion_mask(graph.to(at::kDouble), learnt_scalar(1.0), {.tolerance = 1e-12});
  for (int64_t columns : {0, 1, 16, 63, 300}) {
    const at::Tensor x = at::rand({2, graph.num_nodes(), columns});
    EXPECT_TRUE(close(mask->matmul(x), exact->matmul(x.to(at::kDouble)), 2e-6)) << columns;
  }
}

TEST(Diffusion, IsTheSameForAnyNumberOfThreads) {
  const MaskPtr mask = diffusion_mask(Graph::grid({70, 71}), at::scalar_tensor(1.0), {.tolerance = 1e-4});
  const int threads = at::get_num_threads();
  for (int64_t columns : {5, 100}) {
    const at::Tensor x = at::rand({4970, columns});
    std::vector<at::Tensor> results;
    for (int t : {1, 2, 7}) {
      at::set_num_threads(t);
      results.push_back(mask->matmul(x));
    }
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(results[0], results[1]) && at::equal(results[0], results[2])) << columns;
  }
}

TEST(Diffusion, CarriesGlobalTokens) {
  const Graph graph = Graph::grid({3, 4}).to(at::kDouble);
  const at::Tensor lambda = learnt_scalar(0.5);
  const at::Tensor inner = matrix_exponential(generator_of(graph, Generator::laplacian), lambda);
  expect_mask_is(with_global_tokens(diffusion_mask(graph, lambda, {.tolerance = 1e-14}), 2),
                 at::constant_pad_nd(inner, {2, 0, 2, 0}, 1), 1e-9);
}

TEST(Diffusion, AcceptsNoNodes) {
  const at::Tensor x = at::zeros({2, 0, 3});
  for (DiffusionMethod method : kMethods) {
    const MaskPtr mask = diffusion_mask(Graph::path(0), at::scalar_tensor(1.0), {.method = method});
    EXPECT_EQ(mask->matmul(x).sizes(), x.sizes());
    EXPECT_EQ(mask->dense().numel(), 0);
  }
}

TEST(Diffusion, ConvertsBetweenPrecisions) {
  const MaskPtr mask = diffusion_mask(Graph::cycle(9), at::scalar_tensor(0.5)), wide = mask->to(at::kDouble);
  EXPECT_EQ(wide->dtype(), at::kDouble);
  EXPECT_TRUE(close(wide->dense(), mask->dense(), 3e-6));
  EXPECT_EQ(mask->to(at::kFloat), mask);
}

TEST(Diffusion, SaysWhatIsWrong) {
  const Graph graph = Graph::path(3);
  const at::Tensor lambda = at::scalar_tensor(0.5);
  const at::Tensor zero = at::tensor({0}, at::kLong), one = at::tensor({1}, at::kLong);
  const Graph directed = Graph::from_edges(2, zero, one, {}, {.directed = true});
  EXPECT_ERROR(diffusion_mask(directed, lambda), "diffusion_mask: graph must be undirected, got a directed one");
  EXPECT_ERROR(diffusion_mask(graph, at::scalar_tensor(-0.5)),
               "diffusion_mask: lambda must be finite and >= 0, got -0.5");
  EXPECT_ERROR(diffusion_mask(graph, at::scalar_tensor(NAN)), "lambda must be finite and >= 0, got nan");
  EXPECT_ERROR(diffusion_mask(graph, at::ones({2, 2})),
               "diffusion_mask: lambda must be Float or Double, [] or [H], on cpu or cuda, got Float[2, 2]");
  EXPECT_ERROR(diffusion_mask(graph, at::ones({0})), "got Float[0]");
  EXPECT_ERROR(diffusion_mask(graph, lambda.to(at::kDouble)), "lambda must be Float as the graph's weights are");
  EXPECT_ERROR(diffusion_mask(graph, lambda, {.tolerance = 0}), "tolerance must be in (0, 1), got 0");
  EXPECT_ERROR(diffusion_mask(graph, at::scalar_tensor(1e20)),
               "diffusion_mask: lambda times the width of the spectrum must be below");
  const Graph negative = graph.with_weights(at::tensor({-1.0f, -1.0f, 1.0f, 1.0f}));
  EXPECT_ERROR(diffusion_mask(negative, lambda, {Generator::normalised_laplacian}),
               "graph must have weights >= 0 for the normalised Laplacian, got -1");
  at::Tensor learned = at::scalar_tensor(0.5);
  const MaskPtr mask = diffusion_mask(graph, learned);
  learned.fill_(-1);
  EXPECT_ERROR(mask->matmul(at::ones({3, 1})), "lambda must be finite and >= 0, got -1");
  EXPECT_ERROR(chebyshev_degree(*hypercube_diffusion_mask(2, lambda)),
               "chebyshev_degree: mask must be a diffusion mask, got hypercube_diffusion");
}

}  // namespace
}  // namespace topomask
