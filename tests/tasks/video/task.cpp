#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "topomask/config.h"
#include "topomask/nn/vivit.h"
#include "topomask/tasks/video.h"
#include "topomask/train/train.h"
#include "train/run_testing.h"

namespace topomask {
namespace {

using testing::kQuiet;
using testing::OneThread;
using testing::ScratchFolder;

/// Generated images that move over 24 x 24 pixels: 3 x 3 patches, 4 steps of two frames.
RunConfig video_run(const std::string& variant = "softmax_grf", const std::string& attention = "factorised") {
  RunConfig config;
  config.task = "video";
  VideoOptions& d = config.video_data;
  d.kind = "synthetic";
  d.frames = 8;
  d.image_size = 24;
  d.synthetic_train = 48;
  d.synthetic_test = 20;
  d.validation = 12;
  d.workers = 2;
  ViViTOptions& m = config.video_model;
  m.variant = variant;
  m.attention = attention;
  m.patch_size = 8;
  m.width = 16;
  m.depth = 1;
  m.heads = 2;
  m.temporal_depth = 1;
  m.walkers = 4;
  m.halting_probability = 0.3;
  m.hops = 4;
  config.train.seed = 11;
  config.train.steps = 8;
  config.train.batch_size = 8;
  config.train.accumulation = 2;
  config.train.ema_decay = 0.9;
  config.train.log_every = 3;
  config.train.checkpoint_every = 3;
  config.train.evaluation_batch = 7;
  return config;
}

TEST(VideoTask, ARunStoppedAndContinuedEndsBitForBitAsOneThatWasNot) {
  const OneThread one;
  const ScratchFolder folder;
  for (const std::string attention : {"factorised", "joint"}) {
    const RunConfig config = video_run(attention == "joint" ? "grf" : "softmax_grf", attention);
    train(config, folder / ("straight" + attention), kQuiet);
    TrainHooks hooks = kQuiet;
    hooks.stop = [](int64_t step) { return step == 2 || step == 5; };
    RunConfig moved = config;
    moved.video_data.workers = 0;  // which decides nothing
    EXPECT_FALSE(train(config, folder / ("broken" + attention), hooks).finished);
    EXPECT_EQ(train(moved, folder / ("broken" + attention), hooks).resumed_from, 2);
    EXPECT_TRUE(train(config, folder / ("broken" + attention), hooks).finished);
    testing::expect_same_run(folder / ("straight" + attention), folder / ("broken" + attention));
  }
}

TEST(VideoTask, ACheckpointEvaluatesToTheNumbersOfItsRun) {
  const OneThread one;
  const ScratchFolder folder;
  for (const std::string precision : {"float32", "bfloat16"}) {
    RunConfig config = video_run();
    config.train.precision = precision;
    const TrainResult result = train(config, folder / precision, kQuiet);
    const LoadedTask loaded = load_task(folder.path / precision / kCheckpointName);
    EXPECT_STREQ(loaded.task->items(), "clips");
    for (const char* split : {"validation", "test"}) {
      const Evaluation again = loaded.task->evaluate(split);
      EXPECT_EQ(again.loss, result.evaluations.at(split).loss) << precision;
      EXPECT_EQ(again.accuracy, result.evaluations.at(split).accuracy) << precision;
      EXPECT_EQ(again.confusion.sum().item<int64_t>(), loaded.task->size(split));
    }
  }
}

TEST(VideoTask, MicroBatchesSumToTheLoss) {
  RunConfig config = video_run();
  config.video_model.dropout = 0;
  const auto loss_in = [&](int64_t parts) {
    config.train.accumulation = parts;
    const auto task = make_task(config);
    task->open_training();
    task->make_model(at::kCPU);
    task->load_batch(7);  // of the second epoch
    double sum = 0;
    for (int64_t p = 0; p < parts; ++p) sum += task->loss(p).item<double>();
    return sum;
  };
  EXPECT_NEAR(loss_in(1), loss_in(3), 1e-5);
}

TEST(VideoTask, LearnsHowThingsMove) {
  const OneThread one;
  const ScratchFolder folder;
  RunConfig config = video_run();
  config.video_data.image_size = 32;
  config.video_data.synthetic_train = 1024;
  config.video_data.synthetic_test = 192;
  config.video_data.validation = 0;
  config.video_model.width = 32;
  config.video_model.cls_token = false;
  config.video_model.dropout = 0;
  config.video_model.walkers = 20;
  config.video_model.halting_probability = 0.1;
  config.video_model.hops = 10;
  config.train.accumulation = 1;
  config.train.ema_decay = 0;
  config.train.batch_size = 32;
  config.train.steps = 150;
  config.train.learning_rate = 5e-3;
  config.train.evaluate_every = 1000;
  const TrainResult result = train(config, folder / "run", kQuiet);
  EXPECT_GT(result.evaluations.at("test").accuracy, 0.5);  // of six motions
}

TEST(VideoTask, AViewIsAClipAndItsClasses) {
  const RunConfig config = video_run("grf", "joint");
  const auto task = make_task(config);
  task->open_training();
  task->make_model(at::kCPU);
  task->model().eval();
  const ClipView view = view_clip(*task, "test", 3);
  EXPECT_EQ(view.clip.sizes(), (at::IntArrayRef{8, 1, 24, 24}));
  EXPECT_NEAR(view.probabilities.sum().item<double>(), 1, 1e-5);
  const VideoBatch batch = open_videos(config.video_data, Split::test)->batch({3});
  EXPECT_TRUE(at::equal(view.clip, batch.clips[0]));
  EXPECT_EQ(view.label, batch.labels[0].item<int64_t>());
  EXPECT_EQ(std::ssize(task->classes()), 6);
  EXPECT_EQ(task->modulation().sizes(), (at::IntArrayRef{1, 2, 5}));
  EXPECT_ERROR(view_clip(*task, "test", 20), "view_clip: place must be in [0, 20), the test split, got 20");
}

TEST(VideoTask, ConfigurationsAreReadAndChecked) {
  const RunConfig config = parse_config(R"({"task": "video", "data": {"kind": "synthetic", "frames": 8},
      "model": {"attention": "joint", "variant": "grf", "tubelet": 4}})",
                                        "here: ");
  EXPECT_EQ(config.variant(), "joint grf");
  EXPECT_EQ(config.video_data.frames, 8);
  EXPECT_EQ(to_json(parse_config(to_json(config), "again: ")), to_json(config));
  EXPECT_ERROR(parse_config(R"({"task": "video", "model": {"attention": "all"}})", "here: "),
               "here: model.attention must be factorised or joint, got all");
  EXPECT_ERROR(parse_config(R"({"task": "video", "data": {"frames": 0}})", "here: "),
               "here: data.frames must be from 1 to 4096, got 0");
  const ScratchFolder folder;
  RunConfig wrong = video_run();
  wrong.video_model.frames = 6;
  EXPECT_ERROR(train(wrong, folder / "run", kQuiet), "model.frames must be 0 or 8, as the data has it, got 6");
  wrong = video_run();
  wrong.train.batch_size = 37;
  EXPECT_ERROR(train(wrong, folder / "run", kQuiet), "batch_size must be in [1, 36], the number of training clips");
}

TEST(VideoTask, TheExampleFits) {
  const RunConfig config = read_config(std::string(TOPOMASK_GOLDEN_DIR) + "/../../examples/video.json");
  EXPECT_EQ(config.task, "video");
  const auto task = make_task(config);
  task->open_training();
  task->make_model(at::kCPU);
  EXPECT_GT(task->steps_per_epoch(), 0);
}

}  // namespace
}  // namespace topomask
