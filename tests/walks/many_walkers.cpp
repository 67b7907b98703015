#include <ATen/Parallel.h>

#include "support/peak_memory.h"
#include "topomask/walking_mask.h"
#include "walks/helpers.h"
#include "walks/plan.h"

namespace topomask::testing {
namespace {

TEST(ManyWalkers, ARowMadeInPartsIsTheRowMadeAtOnce) {
  // Twenty thousand walkers of a row are made at once, seventy thousand are not.
  const Graph graph = Graph::path(3).normalised();
  for (const Coupling coupling : {Coupling::independent, Coupling::antithetic, Coupling::repelling}) {
    SCOPED_TRACE(static_cast<int>(coupling));
    WalkOptions options{.walkers = 20000,
                        .fixed_hops = 8,
                        .coupling = coupling,
                        .ensemble = coupling == Coupling::repelling ? 100 : 0,
                        .group_products = true,
                        .seed = 3,
                        .first_walker = 2};
    WalkTable extended = sample_walks(graph, options);
    for (const int64_t more : {20000, 20000, 10000}) extended = extend_walks(extended, graph, more);
    options.walkers = 70000;
    expect_same(sample_walks(graph, options), extended);
    expect_same(extend_walks(sample_walks(graph, {.walkers = 10000,
                                                  .fixed_hops = 8,
                                                  .coupling = coupling,
                                                  .ensemble = options.ensemble,
                                                  .group_products = true,
                                                  .seed = 3,
                                                  .first_walker = 2}),
                             graph, 60000),
                extended);
  }
}

TEST(ManyWalkers, OneEnsembleOfRepellingWalkersStaysWhole) {
  const Graph graph = Graph::cycle(5).normalised();
  const WalkTable table = sample_walks(graph, {.walkers = 40000, .fixed_hops = 8, .coupling = Coupling::repelling});
  // Walkers that repel each other leave a node of degree two in equal halves.
  for (int64_t i = 0; i < 5; ++i) {
    const int64_t begin = table.offsets()[i].item<int64_t>(), end = table.offsets()[i + 1].item<int64_t>();
    for (int64_t p = begin; p < end; ++p) {
      if (table.hops()[p].item<int64_t>() != 1) continue;
      EXPECT_EQ(table.counts()[p].item<int64_t>(), 20000);
    }
  }
}

TEST(ManyWalkers, OneEnsembleIsBoundedByItsVisits) {
  const Graph graph = Graph::cycle(4).normalised();
  const auto expect = [&](const WalkOptions& options, const std::string& text) {
    EXPECT_ERROR(sample_walks(graph, options), "sample_walks: " + text);
    EXPECT_ERROR(walking_mask(graph, at::ones({2}), options), text);
  };
  for (const Coupling coupling : {Coupling::repelling, Coupling::antithetic_repelling}) {
    expect({.walkers = 100000000, .fixed_hops = 3, .coupling = coupling},
           "walkers must be at most 4194304 for an ensemble of repelling walkers with 4 visits each, which are in "
           "memory together, got 100000000");
    expect({.walkers = 2147483647, .max_hops = 1, .coupling = coupling}, "walkers must be at most 11184810 for an");
    expect({.walkers = 2000000000, .fixed_hops = 1, .coupling = coupling, .ensemble = 1000000000},
           "ensemble must be at most 8388608 for an ensemble of repelling walkers with 2 visits each");
  }
}

TEST(ManyWalkers, OneEnsembleTakesTheMemoryThatIsCountedForIt) {
  const Graph graph = Graph::cycle(4).normalised();
  constexpr int64_t kWalkers = 500000;
  const WalkOptions options{.walkers = kWalkers, .fixed_hops = 3, .coupling = Coupling::repelling};
  const int64_t growth = peak_growth([&] { sample_walks(graph, options); });
  if (growth < 0) GTEST_SKIP() << "the peak of memory cannot be measured here";
  const double counted = kEnsembleVisitBytes * kWalkers * 4 * at::get_num_threads();
  EXPECT_LT(static_cast<double>(growth), 1.2 * counted);
  EXPECT_GT(static_cast<double>(growth), 0.3 * counted);
}

TEST(ManyWalkers, TakeNoMoreMemoryThanFew) {
  const Graph graph = Graph::cycle(4).normalised();
  int64_t steps = 0;
  const int64_t growth = peak_growth([&] {
    const WalkTable table = sample_walks(graph, {.walkers = 1000000, .fixed_hops = 8});
    steps = table.counts().sum().item<int64_t>();
  });
  EXPECT_EQ(steps, int64_t{4} * 1000000 * 9);
  if (growth < 0) GTEST_SKIP() << "the peak of memory cannot be measured here";
  EXPECT_LT(growth, int64_t{200} << 20);  // the visits of one row alone take as much
}

}  // namespace
}  // namespace topomask::testing
