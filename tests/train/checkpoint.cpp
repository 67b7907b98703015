#include "topomask/train/checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "support/compare.h"
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
          .optimiser = {{"steps", at::tensor(7.0F)}}};
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Checkpoint, ComesBackBitForBit) {
  const testing::ScratchFolder folder;
  const Checkpoint saved = some_checkpoint();
  save_checkpoint(saved, folder / "c.pt");
  const Checkpoint loaded = load_checkpoint(folder / "c.pt");
  EXPECT_EQ(loaded.step, 7);
  EXPECT_EQ(loaded.seconds, 1.5);
  EXPECT_EQ(loaded.config, "{}");
  testing::expect_same(loaded.model, saved.model);
  testing::expect_same(loaded.average, saved.average);
  testing::expect_same(loaded.optimiser, saved.optimiser);
}

TEST(Checkpoint, DamageIsNoticed) {
  const testing::ScratchFolder folder;
  save_checkpoint(some_checkpoint(), folder / "c.pt");
  const std::string whole = bytes_of(folder / "c.pt");
  EXPECT_ERROR(load_checkpoint(folder / "none.pt"), "none.pt: cannot read");
  write(folder / "empty.pt", "");
  EXPECT_ERROR(load_checkpoint(folder / "empty.pt"), "empty.pt: not a whole checkpoint");
  write(folder / "cut.pt", whole.substr(0, whole.size() / 2));
  EXPECT_ERROR(load_checkpoint(folder / "cut.pt"), "cut.pt: not a whole checkpoint");
  // One number of the weights.
  const at::Tensor a = some_checkpoint().model.at("a");
  const std::string number(static_cast<const char*>(a.const_data_ptr()), 16);
  std::string changed = whole;
  const size_t place = changed.find(number);
  ASSERT_NE(place, std::string::npos);
  changed[place] = static_cast<char>(changed[place] ^ 1);
  write(folder / "bit.pt", changed);
  EXPECT_ERROR(load_checkpoint(folder / "bit.pt"), "bit.pt: not a whole checkpoint");
}

TEST(Checkpoint, AFullDiskLeavesTheLastOne) {
  const testing::ScratchFolder folder;
  save_checkpoint(some_checkpoint(), folder / "c.pt");
  const std::string before = bytes_of(folder / "c.pt");
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{1024, limit.rlim_max};
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_ERROR(save_checkpoint(some_checkpoint(), folder / "c.pt"), "c.pt: cannot write: File too large");
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, old);
  EXPECT_EQ(bytes_of(folder / "c.pt"), before);
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

}  // namespace
}  // namespace topomask
