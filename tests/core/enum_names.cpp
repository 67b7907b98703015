#include "core/enum_names.h"

#include "attention/names.h"
#include "graph/names.h"
#include "masks/names.h"
#include "support/compare.h"
#include "theory/names.h"
#include "walks/names.h"

namespace topomask {
namespace {

TEST(EnumNames, AreReadAsTheyAreWritten) {
  const auto round_trip = [](const auto& table) {
    for (const std::string& name : table.all()) EXPECT_EQ(table[*table.find(name)], name);
    EXPECT_FALSE(table.find("no such name"));
    EXPECT_FALSE(table.find(""));
  };
  round_trip(kCouplingNames);
  round_trip(kProposalNames);
  round_trip(kDuplicatesNames);
  round_trip(kSelfLoopsNames);
  round_trip(kDiagonalNames);
  round_trip(kCausalityNames);
  round_trip(kGeneratorNames);
  round_trip(kDiffusionMethodNames);
  round_trip(kNeighbourKernelNames);
  round_trip(kRouteNames);
  round_trip(kSoftmaxMaskNames);
  round_trip(kEstimatorNames);
}

TEST(EnumNames, AreThoseOfTheEnumerators) {
  EXPECT_EQ(kCouplingNames[Coupling::antithetic_repelling], "antithetic_repelling");
  EXPECT_EQ(kProposalNames[Proposal::given], "given");
  EXPECT_EQ(kDuplicatesNames[Duplicates::refuse], "refuse");
  EXPECT_EQ(kSelfLoopsNames[SelfLoops::refuse], "refuse");
  EXPECT_EQ(kDiagonalNames[Diagonal::debiased], "debiased");
  EXPECT_EQ(kCausalityNames[Causality::first_axis], "first_axis");
  EXPECT_EQ(kGeneratorNames[Generator::normalised_laplacian], "normalised_laplacian");
  EXPECT_EQ(kDiffusionMethodNames[DiffusionMethod::lanczos], "lanczos");
  EXPECT_EQ(kNeighbourKernelNames[NeighbourKernel::box], "box");
  EXPECT_EQ(kRouteNames[Route::operator_], "operator");
  EXPECT_EQ(kSoftmaxMaskNames[SoftmaxMask::additive], "additive");
  EXPECT_EQ(kEstimatorNames[Estimator::one_sided], "one_sided");
}

TEST(EnumNames, RefuseOthersWithTheNamesThatThereAre) {
  EXPECT_EQ(kCouplingNames.parse("op", "coupling", "repelling"), Coupling::repelling);
  EXPECT_ERROR(kDiagonalNames.parse("grf_mask", "diagonal", "both"),
               "grf_mask: diagonal must be shared or debiased, got both");
  EXPECT_ERROR(kCouplingNames.parse("sample_walks", "coupling", "none"),
               "sample_walks: coupling must be independent, antithetic, repelling or antithetic_repelling, got none");
}

}  // namespace
}  // namespace topomask
