#include "topomask/train/train.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <numeric>

#include "support/compare.h"
#include "support/devices.h"
#include "topomask/config.h"
#include "topomask/nn/variants.h"
#include "train/metrics.h"
#include "train/run_testing.h"

namespace topomask {
namespace {

namespace fs = std::filesystem;
using testing::kQuiet;
using testing::ScratchFolder;
using testing::small_run;

TEST(Train, LeavesAWholeFolder) {
  const ScratchFolder folder;
  const TrainResult result = train(small_run(), folder / "run", kQuiet);
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.steps, 12);
  EXPECT_EQ(result.resumed_from, 0);
  EXPECT_GT(result.median_step_ms, 0);
  ASSERT_EQ(result.evaluations.size(), 2);
  for (const char* name : {"config.json", "metrics.jsonl", kCheckpointName, "summary.json"}) {
    EXPECT_TRUE(fs::exists(folder.path / "run" / name)) << name;
  }
  const RunConfig written = read_config((folder.path / "run" / "config.json").string());
  EXPECT_EQ(written.model.image_size, 16);
  EXPECT_EQ(written.model.classes, 4);
  const RunMetrics metrics = read_metrics(folder / "run");
  EXPECT_EQ(metrics.train.size(), 4);
  EXPECT_EQ(metrics.eval.back().split, "test");
  EXPECT_EQ(metrics.eval.back().accuracy, result.evaluations.at("test").accuracy);
}

TEST(Train, ARunStoppedAndContinuedEndsBitForBitAsOneThatWasNot) {
  for (const std::string variant : {"grf", "toeplitz"}) {
    const ScratchFolder folder;
    train(small_run(variant), folder / "straight", kQuiet);
    TrainHooks hooks = kQuiet;
    hooks.stop = [](int64_t step) { return step == 5 || step == 9; };
    EXPECT_FALSE(train(small_run(variant), folder / "broken", hooks).finished);
    EXPECT_EQ(train(small_run(variant), folder / "broken", hooks).resumed_from, 5);
    const TrainResult last = train(small_run(variant), folder / "broken", hooks);
    EXPECT_EQ(last.resumed_from, 9);
    EXPECT_TRUE(last.finished);
    testing::expect_same_run(folder / "straight", folder / "broken");
    const RunMetrics b = read_metrics(folder / "broken");
    const TrainResult again = train(small_run(variant), folder / "broken", kQuiet);  // nothing left to do
    EXPECT_EQ(again.evaluations.at("test").accuracy, last.evaluations.at("test").accuracy);
    EXPECT_EQ(read_metrics(folder / "broken").eval.size(), b.eval.size());
  }
}

nlohmann::json summary_of(const fs::path& run) {
  std::ifstream file(run / "summary.json");
  return nlohmann::json::parse(file);
}

TEST(Train, AFinishedRunKeepsItsTimesAndMemory) {
  const ScratchFolder folder;
  const fs::path run = folder / "run";
  train(small_run("linear"), run, kQuiet);
  const nlohmann::json first = summary_of(run);
  EXPECT_GT(first["step_ms"], 0);
  EXPECT_GT(first["peak_memory_mb"], 0);
  const TrainResult again = train(small_run("linear"), run, kQuiet);
  EXPECT_EQ(summary_of(run), first);
  EXPECT_EQ(again.median_step_ms, first["step_ms"]);
  // As after a kill between the last checkpoint and the summary, and as earlier versions left it.
  for (const char* text : {"", "{\"step_ms\": 0, \"peak_memory_mb\": 0}", "cut"}) {
    fs::remove(run / "summary.json");
    if (*text != '\0') std::ofstream(run / "summary.json") << text;
    train(small_run("linear"), run, kQuiet);
    std::vector<double> times, memory;
    for (const TrainMetrics& line : read_metrics(run).train) {
      times.push_back(line.step_ms);
      memory.push_back(line.memory_mb);
    }
    std::sort(times.begin(), times.end());
    EXPECT_EQ(summary_of(run)["step_ms"], times[2]) << text;  // of four lines
    EXPECT_EQ(summary_of(run)["peak_memory_mb"], *std::max_element(memory.begin(), memory.end())) << text;
  }
}

TEST(Train, FilesOfTheUserStayInTheFolder) {
  const ScratchFolder folder;
  const fs::path run = folder / "run";
  fs::create_directories(run);
  const std::vector<std::string> kept{"notes.tmp.txt", "notes.tmp.1.0", "config.json.tmp.1", "config.json.tmp.a.b"},
      removed{"config.json.tmp.12.0", "checkpoint.safetensors.tmp.4.77", "provenance.json.tmp.1.1"};
  for (const auto* names : {&kept, &removed}) {
    for (const std::string& name : *names) std::ofstream(run / name) << "x";
  }
  RunConfig config = small_run("linear");
  config.train.steps = 1;
  train(config, run, kQuiet);
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(run / name)) << name;
  for (const std::string& name : removed) EXPECT_FALSE(fs::exists(run / name)) << name;
}

TEST(Train, PartsOfABatchAddUpToTheWhole) {
  const ScratchFolder folder;
  RunConfig config = small_run();
  config.model.dropout = 0;  // drawn for each part
  config.train.steps = 3;
  // With weights that stay, moments are sums of gradients, and differ by the order of their additions alone.
  config.train.learning_rate = 0;
  config.train.final_learning_rate = 0;
  train(config, folder / "whole", kQuiet);
  config.train.accumulation = 3;  // of 16 images: 6, 5, 5
  train(config, folder / "parts", kQuiet);
  const NamedTensors a = load_checkpoint(folder.path / "whole" / kCheckpointName).optimiser;
  const NamedTensors b = load_checkpoint(folder.path / "parts" / kCheckpointName).optimiser;
  for (const auto& [name, tensor] : a) {
    if (!name.starts_with("first.")) continue;
    EXPECT_TRUE(testing::close(b.at(name), tensor, 2e-5, 1e-3)) << name;
  }
}

TEST(Train, AFolderWhoseRunDivergedCanBeUsedAgain) {
  const ScratchFolder folder;
  RunConfig good = small_run("linear"), bad = good;
  good.train.steps = 2;
  bad.train.learning_rate = 1e30;
  bad.train.clip_norm = 0;
  bad.train.warmup_steps = 0;
  bad.train.log_every = 100;  // so that it is a checkpoint that comes first
  bad.train.checkpoint_every = 4;
  EXPECT_ERROR(train(bad, folder / "early", kQuiet), "at step 2: the run has diverged");
  EXPECT_ERROR(train(bad, folder / "early", kQuiet), "early has no checkpoint yet");
  EXPECT_FALSE(fs::exists(folder.path / "early" / kCheckpointName));
  EXPECT_TRUE(train(good, folder / "early", kQuiet).finished);

  bad.train.checkpoint_every = 1;
  EXPECT_ERROR(train(bad, folder / "late", kQuiet), "late keeps its checkpoint of step 1");
  const Checkpoint kept = load_checkpoint(folder.path / "late" / kCheckpointName);
  for (const auto& [name, tensor] : kept.model) EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
  EXPECT_ERROR(train(good, folder / "late", kQuiet), "start over in this one with --restart");
  TrainHooks restart = kQuiet;
  restart.restart = true;
  EXPECT_EQ(train(good, folder / "late", restart).resumed_from, 0);
  testing::expect_same_run(folder / "early", folder / "late");
}

TEST(Train, AConfigurationThatIsRefusedLeavesNothingBehind) {
  const ScratchFolder folder;
  RunConfig config = small_run("linear");
  config.train.accumulation = 17;
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "accumulation must be in [1, 16]");
  EXPECT_FALSE(fs::exists(folder / "run"));
  config = small_run("linear");
  config.train.steps = 2;
  train(config, folder / "run", kQuiet);
  config.train.accumulation = 17;
  TrainHooks restart = kQuiet;
  restart.restart = true;
  EXPECT_ERROR(train(config, folder / "run", restart), "accumulation must be in [1, 16]");
  EXPECT_EQ(load_checkpoint(folder.path / "run" / kCheckpointName).step, 2);
}

TEST(Train, ACheckpointOfAnEarlierVersionIsRefused) {
  const ScratchFolder folder;
  fs::create_directories(folder / "run");
  std::ofstream(folder.path / "run" / "checkpoint.pt") << "\x80\x02}";
  EXPECT_ERROR(train(small_run("linear"), folder / "run", kQuiet),
               "checkpoint.pt: a checkpoint of an earlier version, a pickle, which is no longer read");
  EXPECT_ERROR(load_checkpoint(folder.path / "run" / "checkpoint.pt"), "checkpoint.pt: a pickle, as earlier versions");
}

TEST(Train, ADeviceThatIsNotThereIsRefusedWithWhatToDo) {
  const ScratchFolder folder;
  RunConfig config = small_run("linear");
  config.train.device = "tpu";
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "train: device must be cpu, cuda or cuda:N, got tpu");
  config.train.device = "cuda:64";
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "train: train.device is cuda:64, but ");
  if (at::hasCUDA()) GTEST_SKIP() << "the rest needs a machine without a GPU";
  config.train.device = "cuda";
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "train.device is cuda, but torch finds no GPU here: use cpu, or");
}

/// Counts how often each image is read.
class CountedImages : public ImageDataset {
 public:
  explicit CountedImages(DatasetPtr images)
      : ImageDataset(images->info()), reads(static_cast<size_t>(images->size())), images_(std::move(images)) {}
  int64_t read(int64_t index, uint8_t* image) const override {
    ++reads[static_cast<size_t>(index)];
    return images_->read(index, image);
  }

  mutable std::vector<std::atomic<int>> reads;

 private:
  DatasetPtr images_;
};

TEST(Evaluate, CountsClassesInTheOnePassOverTheData) {
  RunConfig config = small_run("linear");
  const auto images = std::make_shared<CountedImages>(open_dataset(config.data, Split::test));
  config = complete_config(config, *images);
  ViT model(config.model, 1);
  const Evaluation evaluation = evaluate(model, images, augment_options(config.data, *images), 7);
  for (const auto& reads : images->reads) EXPECT_EQ(reads.load(), 1);
  ASSERT_EQ(evaluation.confusion.sizes(), at::IntArrayRef({4, 4}));
  EXPECT_EQ(evaluation.confusion.sum().item<int64_t>(), 32);
  EXPECT_DOUBLE_EQ(evaluation.accuracy, static_cast<double>(evaluation.confusion.trace().item<int64_t>()) / 32);
  const at::Tensor labels = images
                                ->batch([] {
                                  std::vector<int64_t> all(32);
                                  std::iota(all.begin(), all.end(), 0);
                                  return all;
                                }())
                                .labels;
  EXPECT_TRUE(at::equal(evaluation.confusion.sum(1), at::bincount(labels, {}, 4)));
}

TEST(Train, AFolderOfAnotherConfigurationIsRefused) {
  const ScratchFolder folder;
  RunConfig config = small_run("linear");
  config.train.steps = 2;
  train(config, folder / "run", kQuiet);
  config.train.log_every = 1;  // may differ
  train(config, folder / "run", kQuiet);
  config.model.width = 24;
  EXPECT_ERROR(train(config, folder / "run", kQuiet),
               "checkpoint.safetensors: it is of a run with model.width = 16, and this one has 24");
}

TEST(Train, ADamagedCheckpointIsAnErrorAndIsKept) {
  const ScratchFolder folder;
  RunConfig config = small_run("linear");
  config.train.steps = 2;
  train(config, folder / "run", kQuiet);
  const fs::path checkpoint = folder.path / "run" / kCheckpointName;
  fs::resize_file(checkpoint, fs::file_size(checkpoint) - 100);
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "checkpoint.safetensors: truncated: header says ");
  EXPECT_TRUE(fs::exists(checkpoint));
}

TEST(Train, StartsFromPretrainedWeights) {
  const ScratchFolder folder;
  RunConfig config = small_run("linear");
  config.train.steps = 2;
  train(config, folder / "first", kQuiet);
  config.train.pretrained = (folder.path / "first" / kCheckpointName).string();
  config.train.learning_rate = config.train.final_learning_rate = 0;
  config.train.ema_decay = 0;
  train(config, folder / "second", kQuiet);
  const Checkpoint first = load_checkpoint(folder.path / "first" / kCheckpointName);
  testing::expect_same(load_checkpoint(folder.path / "second" / kCheckpointName).model, first.average);
}

TEST(Train, AModelComesBackFromItsCheckpoint) {
  const ScratchFolder folder;
  RunConfig config = small_run();
  config.train.steps = 3;
  const TrainResult result = train(config, folder / "run", kQuiet);
  const LoadedModel loaded = load_model(folder.path / "run" / kCheckpointName);
  EXPECT_EQ(loaded.step, 3);
  const DatasetPtr test = open_dataset(config.data, Split::test);
  const Evaluation evaluation = evaluate(*loaded.model, test, augment_options(config.data, *test), 7);
  EXPECT_EQ(evaluation.accuracy, result.evaluations.at("test").accuracy);
  EXPECT_NEAR(evaluation.loss, result.evaluations.at("test").loss, 1e-5);
}

void expect_evaluation_of_training(const std::string& variant, double ema_decay, at::Device device) {
  SCOPED_TRACE(c10::str(variant, ", ema_decay ", ema_decay));
  const ScratchFolder folder;
  RunConfig config = small_run(variant);
  config.train.device = device.is_cpu() ? "cpu" : "cuda";
  config.train.steps = 8;
  config.train.evaluate_every = 2;  // masks are cached in several evaluations before the last
  config.train.ema_decay = ema_decay;
  config.train.learning_rate = 0.02;
  const TrainResult result = train(config, folder / "run", kQuiet);
  const LoadedModel loaded = load_model(folder.path / "run" / kCheckpointName, device);
  for (const auto& [name, split] : {std::pair{"test", Split::test}, std::pair{"validation", Split::validation}}) {
    const DatasetPtr dataset = open_dataset(config.data, split);
    const Evaluation evaluation =
        evaluate(*loaded.model, dataset, augment_options(config.data, *dataset), loaded.config.train.evaluation_batch);
    EXPECT_EQ(evaluation.accuracy, result.evaluations.at(name).accuracy) << name;
    EXPECT_EQ(evaluation.loss, result.evaluations.at(name).loss) << name;
  }
}

TEST(Train, EveryVariantEvaluatesInTrainingAsFromItsCheckpoint) {
  for (const at::Device device : testing::devices()) {
    SCOPED_TRACE("on " + device.str());
    for (const std::string& variant : variant_names()) {
      for (const double ema_decay : {0.9, 0.0}) expect_evaluation_of_training(variant, ema_decay, device);
    }
  }
}

TEST(Train, Bfloat16TrainsAsFloat32Does) {
  const ScratchFolder folder;
  const auto losses = [&](const std::string& precision) {
    RunConfig config = small_run();
    config.data.crop_padding = 0;
    config.data.flip = false;
    config.data.mixup = 0;
    config.model.dropout = 0;
    config.train.label_smoothing = 0;
    config.train.precision = precision;
    config.train.learning_rate = 1e-2;
    config.train.steps = 60;
    config.train.log_every = 1;
    train(config, folder / precision, kQuiet);
    std::vector<double> all;
    for (const TrainMetrics& line : read_metrics(folder / precision).train) all.push_back(line.loss);
    return all;
  };
  const std::vector<double> exact = losses("float32"), rounded = losses("bfloat16");
  ASSERT_EQ(exact.size(), 60);
  ASSERT_EQ(rounded.size(), 60);
  // Both begin with the same weights, and logits are rounded by 2⁻⁹ of their size about ten times in a row. Later the
  // runs drift apart, as any two that differ in rounding.
  constexpr double kRounding = 1.0 / 512;
  for (size_t step = 0; step < 5; ++step) EXPECT_NEAR(rounded[step], exact[step], 10 * kRounding * exact[step]) << step;
  const auto mean = [](const std::vector<double>& all, size_t from) {
    return std::accumulate(all.begin() + from, all.begin() + from + 10, 0.0) / 10;
  };
  for (const auto& all : {exact, rounded}) EXPECT_LT(mean(all, 50), 0.5 * mean(all, 0));
}

TEST(Train, WrongOptionsAreRefused) {
  const ScratchFolder folder;
  const auto with = [&](auto change) {
    RunConfig config = small_run("linear");
    change(config);
    train(config, folder / "run", kQuiet);
  };
  EXPECT_ERROR(with([](auto& c) { c.train.batch_size = 1000; }), "batch_size must be in [1, 80], the number of");
  EXPECT_ERROR(with([](auto& c) { c.train.accumulation = 0; }), "accumulation must be >= 1, got 0");
  EXPECT_ERROR(with([](auto& c) { c.train.epochs = -1; }), "train: epochs must be >= 0, got -1");
  EXPECT_ERROR(with([](auto& c) { c.train.warmup_steps = -1; }), "train: warmup_steps must be >= 0, got -1");
  EXPECT_ERROR(with([](auto& c) { c.train.label_smoothing = 2; }), "label_smoothing must be in [0, 1], got 2");
  EXPECT_ERROR(with([](auto& c) { c.train.precision = "float8"; }),
               "precision must be float32 or bfloat16, got float8");
  EXPECT_ERROR(with([](auto& c) { c.model.classes = 7; }), "model.classes must be 0 or 4, as the data has it, got 7");
  EXPECT_ERROR(with([](auto& c) { c.train.learning_rate = 1e30, c.train.clip_norm = 0; }), "the loss is");
}

TEST(TrainSlow, GrfLearnsDistancesThatUnmaskedAttentionDoesNot) {
  const ScratchFolder folder;
  RunConfig config = small_run();
  config.data.image_size = 32;
  config.data.synthetic_train = 2048;
  config.data.synthetic_test = 512;
  config.data.crop_padding = 0;
  config.data.mixup = 0;
  config.model.width = 32;
  config.model.dropout = 0;
  config.train.steps = 300;
  config.train.batch_size = 64;
  config.train.learning_rate = 3e-3;
  config.train.log_every = 100;
  config.train.evaluate_every = 1000;
  const auto accuracy = [&](const std::string& variant, uint64_t seed) {
    config.model.variant = variant;
    config.train.seed = seed;
    return train(config, folder / (variant + std::to_string(seed)), kQuiet).evaluations.at("test").accuracy;
  };
  // Chance is 0.25, with a standard error of 0.02 over 512 images. GRF reached 0.55, 0.66, 0.62 and 0.65 with four
  // seeds; unmasked attention 0.21 to 0.25.
  EXPECT_GT((accuracy("grf", 11) + accuracy("grf", 2)) / 2, 0.5);
  EXPECT_LT(accuracy("linear", 11), 0.35);
}

}  // namespace
}  // namespace topomask
