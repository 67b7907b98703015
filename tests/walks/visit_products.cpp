#include "walks/visit_products.h"

#include "support/compare.h"
#include "topomask/walks.h"

namespace topomask::testing {
namespace {

/// Walks of random lengths on a complete graph, in tensors as walk_table_from_walks takes them.
struct RandomWalks {
  RandomWalks(int64_t nodes, int64_t walkers, int64_t longest) {
    at::manual_seed(7);
    place = at::randint(0, std::max<int64_t>(nodes, 2), {nodes, walkers, longest}, at::kLong);
    place.select(2, 0).copy_(at::arange(nodes).unsqueeze(1).expand({nodes, walkers}));
    // Never where it is already: the graph has no self-loops.
    for (int64_t t = 1; t < longest; ++t) {
      const at::Tensor here = place.select(2, t), last = place.select(2, t - 1);
      here.copy_(at::where(here.eq(last), (here + 1).remainder(std::max<int64_t>(nodes, 1)), here));
    }
    const at::Tensor length = at::randint(1, longest + 1, {nodes, walkers, 1}, at::kLong);
    walked = at::arange(longest) < length;
    place.masked_fill_(walked.logical_not(), -1);
    loads = at::randn({nodes, walkers, longest}, at::kDouble);
  }
  at::Tensor place, walked, loads;
};

TEST(VisitProducts, AreThoseOfTheTable) {
  for (const Coupling coupling : {Coupling::independent, Coupling::antithetic, Coupling::repelling}) {
    for (const auto& [nodes, walkers, longest] : {std::tuple{5, 7, 6}, {3, 40, 9}, {63, 1, 2}, {2, 5, 30}}) {
      SCOPED_TRACE(c10::str(nodes, " nodes, ", walkers, " walkers"));
      const RandomWalks walks(nodes, walkers, longest);
      const Graph graph = Graph::complete(nodes).to(at::kDouble);
      const WalkOptions options{.walkers = walkers, .max_hops = longest, .coupling = coupling, .group_products = true};
      const WalkTable table = walk_table_from_walks(graph, walks.place, options, walks.loads);
      const int64_t group = coupling == Coupling::independent ? 1 : coupling == Coupling::antithetic ? 2 : walkers;
      const at::Tensor hops = at::arange(longest).expand({nodes, walkers, longest});
      const VisitProducts products =
          visit_products(walks.place.masked_select(walks.walked).to(at::kInt), hops.masked_select(walks.walked),
                         walks.loads.masked_select(walks.walked), nodes, walkers, group);
      EXPECT_TRUE(products.offsets.equal(table.product_offsets()));
      EXPECT_TRUE(products.hops.equal(table.product_hops()));
      EXPECT_TRUE(close(products.values, table.product_values(), 1e-12));
    }
  }
}

TEST(VisitProducts, OfNoVisitsAreNone) {
  const VisitProducts products =
      visit_products(at::empty({0}, at::kInt), at::empty({0}, at::kLong), at::empty({0}), 0, 4, 1);
  EXPECT_TRUE(products.offsets.equal(at::zeros({1}, at::kLong)));
  EXPECT_EQ(products.hops.sizes(), at::IntArrayRef({0, 2}));
  EXPECT_EQ(products.values.numel(), 0);
}

}  // namespace
}  // namespace topomask::testing
