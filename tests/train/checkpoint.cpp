#include "topomask/train/checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "support/compare.h"
#include "topomask/nn/graph_model.h"
#include "train/run_testing.h"

namespace topomask {
namespace {

namespace fs = std::filesystem;

Checkpoint some_checkpoint() {
  at::manual_seed(3);
  return {.step = 7,
          .seconds = 1.5,
          .config = "{}",
          .model = {{"a", at::randn({3, 5})}, {"b", at::randn({0})}},
          .average = {{"a", at::randn({3, 5})}},
          .optimiser = {{"steps", at::tensor(7.0F)}, {"wide", at::randn({2}, at::kDouble)}},
          .losses = at::tensor({2.5F, 2.25F})};
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Checkpoint, ComesBackBitForBit) {
  const testing::ScratchFolder folder;
  const Checkpoint saved = some_checkpoint();
  save_checkpoint(saved, folder / "c.safetensors");
  const Checkpoint loaded = load_checkpoint(folder / "c.safetensors");
  EXPECT_EQ(loaded.step, 7);
  EXPECT_EQ(loaded.seconds, 1.5);
  EXPECT_EQ(loaded.config, "{}");
  testing::expect_same(loaded.model, saved.model);
  testing::expect_same(loaded.average, saved.average);
  testing::expect_same(loaded.optimiser, saved.optimiser);
  EXPECT_TRUE(at::equal(loaded.losses, saved.losses));
  Checkpoint empty{.config = "{\"name\": \"Σ \\\"quoted\\\"\"}"};
  save_checkpoint(empty, folder / "c.safetensors");
  EXPECT_EQ(load_checkpoint(folder / "c.safetensors").config, empty.config);
  EXPECT_FALSE(load_checkpoint(folder / "c.safetensors").losses.defined());
}

TEST(Checkpoint, AFullDiskLeavesTheLastOne) {
  const testing::ScratchFolder folder;
  save_checkpoint(some_checkpoint(), folder / "c.safetensors");
  const std::string before = bytes_of(folder / "c.safetensors");
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{64, limit.rlim_max};
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_ERROR(save_checkpoint(some_checkpoint(), folder / "c.safetensors"),
               "c.safetensors: cannot write: File too large");
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, old);
  EXPECT_EQ(bytes_of(folder / "c.safetensors"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 1);
}

TEST(Weights, OfAnotherModelAreRefused) {
  ViTOptions options;
  options.image_size = 8;
  options.channels = 1;
  options.classes = 2;
  options.width = 6;
  options.depth = 1;
  options.variant = "softmax";
  ViT model(options, 1);
  NamedTensors own = weights(model);
  ViTOptions other = options;
  other.classes = 5;
  ViT wider(other, 2);
  EXPECT_ERROR(load_weights(wider, own), "head.weight must be [5, 6], got [2, 6]");
  load_weights(wider, own, /*other_head=*/true);
  EXPECT_TRUE(at::equal(weights(wider).at("positions"), own.at("positions")));
  other = options;
  other.variant = "toeplitz";
  ViT masked(other);
  EXPECT_ERROR(load_weights(masked, own), "weights must have block0.attention.variant.mask.log_offsets, got none");
  EXPECT_ERROR(load_weights(model, weights(masked)), "the model must have block0.attention.variant.mask.log_offsets");
}

TEST(Weights, OfAnotherHeadAreAcceptedInModelsOfGraphs) {
  for (const std::string kind : {"gkat", "gat", "gcn", "gin", "transformer"}) {
    GraphModelOptions options{.kind = kind, .features = 3, .classes = 2, .width = 8};
    const auto model = make_graph_model(options, 1);
    options.classes = 5;
    const auto wider = make_graph_model(options, 2);
    EXPECT_ERROR(load_weights(*wider, weights(*model)), "readout.head.");
    const at::Tensor head = weights(*wider).at("readout.head.weight").clone();
    load_weights(*wider, weights(*model), /*other_head=*/true);
    for (const auto& [name, tensor] : weights(*wider)) {
      if (name.starts_with("readout.head.")) continue;
      EXPECT_TRUE(at::equal(tensor, weights(*model).at(name))) << name;
    }
    EXPECT_TRUE(at::equal(weights(*wider).at("readout.head.weight"), head));
  }
}

}  // namespace
}  // namespace topomask
