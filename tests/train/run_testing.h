#pragma once

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "topomask/train/checkpoint.h"
#include "topomask/train/train.h"

namespace topomask::testing {

/// A folder that is gone with the test.
struct ScratchFolder {
  explicit ScratchFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "topomask_train_XXXXXX").string();
    TORCH_CHECK(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
  std::filesystem::path operator/(const std::string& name) const { return path / name; }
  std::filesystem::path path;
};

/// Computes on one thread while it lives: for runs so small that threads mostly wait for each other, which takes a
/// hundred times as long where cores are busy.
struct OneThread {
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(threads); }
  const int threads = at::get_num_threads();
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

/// metrics.jsonl without what depends on the machine and the moment.
inline std::string metrics_without_times(const std::filesystem::path& run_dir) {
  std::ifstream file(run_dir / "metrics.jsonl", std::ios::binary);
  std::string lines;
  for (std::string line; std::getline(file, line);) {
    auto json = nlohmann::ordered_json::parse(line);
    for (const char* name : {"items_per_s", "step_ms", "memory_mb"}) json.erase(name);
    lines += json.dump() + "\n";
  }
  return lines;
}

inline void expect_same_run(const std::filesystem::path& a, const std::filesystem::path& b) {
  const Checkpoint x = load_checkpoint(a / kCheckpointName), y = load_checkpoint(b / kCheckpointName);
  EXPECT_EQ(x.step, y.step);
  expect_same(x.model, y.model);
  expect_same(x.average, y.average);
  expect_same(x.best, y.best);
  expect_same(x.optimiser, y.optimiser);
  EXPECT_EQ(metrics_without_times(a), metrics_without_times(b));
}

}  // namespace topomask::testing
