#include "topomask/nn/options.h"

#include <limits>

#include "nn/names.h"
#include "support/compare.h"
#include "topomask/masks.h"
#include "topomask/nn/vit.h"

using namespace topomask;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class Change>
void expect_refused(const Change& change, const std::string& text) {
  ViTOptions options = ViTOptions::preset("pico");
  options.image_size = 8;
  options.channels = 1;
  options.classes = 2;
  options.check();
  change(options);
  EXPECT_ERROR(options.check(), "ViT: " + text);
  EXPECT_ERROR(ViT(options, 0), "ViT: " + text);
}

}  // namespace

TEST(ViTOptions, NumbersAreInRange) {
  expect_refused([](auto& o) { o.feature_offset = -1; }, "feature_offset must be >= 0, got -1");
  expect_refused([](auto& o) { o.feature_offset = kNan; }, "feature_offset must be >= 0, got nan");
  expect_refused([](auto& o) { o.mlp_ratio = INFINITY; }, "mlp_ratio must be finite, got inf");
  expect_refused([](auto& o) { o.mlp_ratio = 1e300; }, "mlp_ratio must be at most 16777216 hidden features");
  expect_refused([](auto& o) { o.dropout = kNan; }, "dropout must be in [0, 1), got nan");
  expect_refused([](auto& o) { o.halting_probability = 1; }, "halting_probability must be in (0, 1), got 1");
  expect_refused([](auto& o) { o.edge_scale = kNan; }, "edge_scale must be finite, got nan");
  expect_refused([](auto& o) { o.decay = -0.1; }, "decay must be >= 0, got -0.1");
  expect_refused([](auto& o) { o.diffusion_time = INFINITY; }, "diffusion_time must be finite, got inf");
  expect_refused([](auto& o) { o.edge_scale = 1e300; }, "edge_scale must be at most 1e+06, got 1e+300");
  expect_refused([](auto& o) { o.edge_scale = -1e300; }, "edge_scale must be >= -1e+06, got -1e+300");
  expect_refused([](auto& o) { o.decay = 1e300; }, "decay must be at most 1e+06, got 1e+300");
  expect_refused([](auto& o) { o.diffusion_time = 1e300; }, "diffusion_time must be at most 1e+06, got 1e+300");
  expect_refused([](auto& o) { o.feature_offset = 1e300; }, "feature_offset must be at most 1e+06, got 1e+300");
}

TEST(ViTOptions, CountsAreInRange) {
  expect_refused([](auto& o) { o.image_size = -8; }, "image_size must be >= 0, got -8");
  expect_refused([](auto& o) { o.image_size = INT64_MAX; }, "image_size must be at most 2^53, got");
  expect_refused([](auto& o) { o.image_size = 100000; }, "image_size must be at most 65536, got 100000");
  expect_refused([](auto& o) { o.patch_size = 0; }, "patch_size must be >= 1, got 0");
  expect_refused([](auto& o) { o.width = 0; }, "width must be >= 1, got 0");
  expect_refused([](auto& o) { o.heads = 0; }, "heads must be >= 1, got 0");
  expect_refused([](auto& o) { o.favor_features = -1; }, "favor_features must be >= 0, got -1");
  expect_refused([](auto& o) { o.walkers = 0; }, "walkers must be >= 1, got 0");
  expect_refused([](auto& o) { o.hops = 40000; }, "hops must be at most 32767, got 40000");
  expect_refused([](auto& o) { o.rank = -1; }, "rank must be >= 0, got -1");
}

TEST(ViTOptions, NamesAreKnownEvenWhereTheVariantDoesNotUseThem) {
  expect_refused([](auto& o) { o.variant = "softmax", o.sampler = "best"; },
                 "sampler must be independent, antithetic,");
  expect_refused([](auto& o) { o.variant = "softmax", o.features = "tanh"; }, "features must be relu, elu or favor");
}

TEST(ViTOptions, TakesTheFormerNameOfIndependentWalkers) {
  for (const char* sampler : {"independent", "iid"}) {
    ViTOptions options;
    options.sampler = sampler;
    EXPECT_NO_THROW(options.check(""));
  }
  EXPECT_EQ(sampler_coupling("iid"), Coupling::independent);
  EXPECT_EQ(sampler_coupling("independent"), Coupling::independent);
  EXPECT_EQ(sampler_coupling("antithetic_repelling"), Coupling::antithetic_repelling);
  EXPECT_ERROR(sampler_coupling("best"), "ViT: sampler must be independent, antithetic, repelling or");
}

TEST(LayerArguments, AreInRange) {
  EXPECT_ERROR(GivenMask(none_mask(4), -1), "GivenMask: global_tokens must be >= 0, got -1");
  const auto variant = std::make_shared<SoftmaxAttention>();
  EXPECT_ERROR(MultiheadAttention(-8, 2, variant), "MultiheadAttention: width must be from 1 to 16777216, got -8");
  EXPECT_ERROR(MultiheadAttention(8, 2, nullptr), "MultiheadAttention: variant must be given, got none");
  const auto attention = std::make_shared<MultiheadAttention>(8, 2, variant);
  EXPECT_ERROR(TransformerBlock(8, 0, 0.1, attention), "TransformerBlock: hidden must be >= 1, got 0");
  EXPECT_ERROR(TransformerBlock(8, 8, kNan, attention), "TransformerBlock: dropout must be in [0, 1), got nan");
  EXPECT_ERROR(TransformerBlock(8, 8, 0.1, nullptr), "TransformerBlock: attention must be given, got none");
}
