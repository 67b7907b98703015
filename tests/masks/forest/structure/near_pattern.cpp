#include "masks/forest/structure/near_pattern.h"

#include "masks/forest/structure/forest_structure.h"
#include "masks/forest/trees.h"
#include "support/compare.h"

namespace topomask::testing {
namespace {

TEST(NearPattern, HasTheDistancesOfNearPairs) {
  for (const NamedParent& tree : parents()) {
    SCOPED_TRACE(tree.name);
    const int64_t nodes = tree.parent.size(0);
    const at::Tensor weights = real_weights(nodes, 50);
    const Forest forest(tree.parent, weights);
    const Decomposition& decomposition = forest.structure().decomposition();
    const NearPattern near(decomposition);
    ASSERT_EQ(near.pattern->entries(), static_cast<int64_t>(decomposition.near.size()));
    const at::Tensor distances = at::tensor(decomposition.near, at::kDouble).index_select(0, near.index);
    const at::Tensor present = SparseMatrix{near.pattern, at::ones_like(distances)}.dense();
    EXPECT_TRUE(close(SparseMatrix{near.pattern, distances}.dense(),
                      at::where(present > 0, all_pairs(tree.parent, weights).distance, 0.0), 1e-12));
    EXPECT_TRUE(present.diagonal().equal(at::ones({nodes}, at::kDouble)));
  }
}

}  // namespace
}  // namespace topomask::testing
