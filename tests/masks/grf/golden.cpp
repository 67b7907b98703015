// The masks of given walks, against matrices made apart from this library.

#include "support/golden.h"

#include "masks/grf/grf_testing.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

using testing::close;

class GrfGolden : public ::testing::Test {
 protected:
  GrfGolden() : values_(testing::golden("walks_grid5x6")) {
    const at::Tensor &source = values_.at("src"), &target = values_.at("dst");
    const at::Tensor weights = values_.at("w").index({source, target});
    const Graph graph = Graph::from_edges(30, source, target, weights, {.directed = true});
    walks_ = std::make_unique<WalkTable>(
        walk_table_from_walks(graph, values_.at("nodes"),
                              {.halting_probability = values_.at("halting_probability").item<double>(),
                               .max_hops = 7,
                               .group_products = true}));
    f_ = values_.at("f").clone();
  }

  void expect(const MaskPtr& mask, const char* key) {
    EXPECT_TRUE(close(mask->Mask::dense(), values_.at(key), 1e-10)) << key;
    EXPECT_TRUE(close(mask->sparse()->dense(), values_.at(key), 1e-10)) << key;
  }

  std::map<std::string, at::Tensor> values_;
  std::unique_ptr<WalkTable> walks_;
  at::Tensor f_;
};

TEST_F(GrfGolden, FeaturesAreTheReferenceOnes) {
  EXPECT_TRUE(close(SparseMatrix({walks_->pattern(), walk_features(*walks_, f_)}).dense(), values_.at("phi"), 1e-10));
}

TEST_F(GrfGolden, MasksAreTheReferenceOnes) {
  expect(grf_mask(*walks_, f_), "mask_shared");
  expect(grf_mask(*walks_, f_, {.diagonal = Diagonal::debiased}), "mask_debiased");
  expect(asymmetric_grf_mask(*walks_, f_), "mask_asymmetric");
  expect(ad_hoc_mask(*walks_, f_), "mask_adhoc");
}

}  // namespace
}  // namespace topomask
