#pragma once

#include <unistd.h>

#include <filesystem>

#include "topomask/train/checkpoint.h"
#include "topomask/train/train.h"

namespace topomask::testing {

/// A folder that is gone with the test.
struct ScratchFolder {
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "topomask_train_XXXXXX").string();
    TORCH_CHECK(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
  std::filesystem::path operator/(const std::string& name) const { return path / name; }
  std::filesystem::path path;
};

/// A run of a few hundredths of a second a step: 16 tokens, three layers of options that have state.
inline RunConfig small_run(const std::string& variant = "grf") {
  RunConfig config;
  config.data.image_size = 16;
  config.data.synthetic_train = 96;
  config.data.synthetic_test = 32;
  config.data.validation = 16;
  config.data.crop_padding = 1;
  config.data.flip = true;
  config.data.mixup = 0.4;
  config.data.workers = 1;
  config.model.patch_size = 4;
  config.model.width = 16;
  config.model.depth = 2;
  config.model.heads = 2;
  config.model.variant = variant;
  config.model.walkers = 4;
  config.model.halting_probability = 0.3;
  config.model.hops = 4;
  config.train.seed = 11;
  config.train.steps = 12;
  config.train.batch_size = 16;
  config.train.warmup_steps = 3;
  config.train.ema_decay = 0.9;
  config.train.log_every = 3;
  config.train.checkpoint_every = 4;
  return config;
}

inline const TrainHooks kQuiet{.progress = false};

inline void expect_same(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

inline void expect_same_run(const std::filesystem::path& a, const std::filesystem::path& b) {
  const Checkpoint x = load_checkpoint(a / "checkpoint.pt"), y = load_checkpoint(b / "checkpoint.pt");
  EXPECT_EQ(x.step, y.step);
  expect_same(x.model, y.model);
  expect_same(x.average, y.average);
  expect_same(x.optimiser, y.optimiser);
}

}  // namespace topomask::testing
