#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "data/graphs/graph_files.h"
#include "support/compare.h"
#include "topomask/config.h"
#include "topomask/tasks/graphs.h"
#include "topomask/train/train.h"
#include "train/metrics.h"
#include "train/run_testing.h"

namespace topomask {
namespace {

using testing::kQuiet;
using testing::OneThread;
using testing::ScratchFolder;

RunConfig motif_run(const std::string& kind = "gkat") {
  RunConfig config;
  config.task = "graphs";
  config.graph_data.generated_train = 40;
  config.graph_data.generated_validation = 20;
  config.graph_data.generated_test = 20;
  config.graph_model.kind = kind;
  config.graph_model.walkers = 10;
  config.train.seed = 5;
  config.train.steps = 9;
  config.train.batch_size = 16;  // steps of 16, 16 and 8 graphs
  config.train.learning_rate = 1e-2;
  config.train.label_smoothing = 0;
  config.train.log_every = 2;
  config.train.checkpoint_every = 4;
  return config;
}

std::string sentences(int count = 12) {
  std::string text;
  for (int sentence = 0; sentence < count; ++sentence) {
    text += "1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\tdog" + std::to_string(sentence) +
            "\tdog\tNOUN\t_\t_\t3\tnsubj\t_\t_\n3\tbarks\tbark\tVERB\t_\t_\t0\troot\t_\t_\n\n";
  }
  return text;
}

TEST(GraphTask, ARunStoppedAndContinuedEndsBitForBitAsOneThatWasNot) {
  const OneThread one;
  for (const std::string resample : {"never", "epoch"}) {
    const ScratchFolder folder;
    RunConfig config = motif_run("transformer");
    config.graph_model.width = 8;
    config.graph_model.mask = "grf";
    config.graph_model.dropout = 0.1;
    config.graph_model.resample = resample;
    config.train.select = "best";
    train(config, folder / "straight", kQuiet);
    TrainHooks hooks = kQuiet;
    hooks.stop = [](int64_t step) { return step == 2 || step == 5; };
    EXPECT_FALSE(train(config, folder / "broken", hooks).finished);
    EXPECT_EQ(train(config, folder / "broken", hooks).resumed_from, 2);
    EXPECT_TRUE(train(config, folder / "broken", hooks).finished);
    testing::expect_same_run(folder / "straight", folder / "broken");
  }
}

void expect_checkpoint_has_the_numbers_of(const RunConfig& config) {
  const ScratchFolder folder;
  const TrainResult result = train(config, folder / "run", kQuiet);
  const LoadedTask loaded = load_task(folder.path / "run" / kCheckpointName);
  for (const char* split : {"validation", "test"}) {
    const Evaluation again = loaded.task->evaluate(split);
    EXPECT_EQ(again.loss, result.evaluations.at(split).loss) << split;
    EXPECT_EQ(again.accuracy, result.evaluations.at(split).accuracy) << split;
    EXPECT_EQ(again.confusion.sum().item<int64_t>(), 20);
  }
}

TEST(GraphTask, ACheckpointEvaluatesToTheNumbersOfItsRun) {
  const OneThread one;
  for (const std::string kind : {"gkat", "gat", "gcn", "gin", "transformer"}) {
    SCOPED_TRACE(kind);
    RunConfig config = motif_run(kind);
    config.graph_model.width = 8;
    config.graph_model.norm = kind == "gin" ? "batch" : "none";  // has running statistics
    config.graph_model.resample = "epoch";
    config.train.select = "best";
    expect_checkpoint_has_the_numbers_of(config);
  }
}

/// The moving average has parameters alone.
TEST(GraphTask, AverageAndRunningStatisticsAreOneModel) {
  const OneThread one;
  for (const char* select : {"last", "best"}) {
    SCOPED_TRACE(select);
    RunConfig config = motif_run("gin");
    config.graph_model.width = 8;
    config.graph_model.norm = "batch";
    config.train.ema_decay = 0.9;
    config.train.select = select;
    expect_checkpoint_has_the_numbers_of(config);
  }
}

TEST(GraphTask, TheBestWeightsAreThoseOfTheBestValidationLine) {
  const OneThread one;
  const ScratchFolder folder;
  RunConfig config = motif_run();
  config.train.select = "best";
  config.train.steps = 30;
  config.train.learning_rate = 0.05;
  const TrainResult result = train(config, folder / "run", kQuiet);
  double best = 0;
  const RunMetrics metrics = read_metrics(folder / "run");
  for (const EvalMetrics& line : metrics.eval) {
    if (line.split == "validation") best = std::max(best, line.accuracy);
  }
  EXPECT_EQ(result.evaluations.at("validation").accuracy, best);
  EXPECT_EQ(metrics.eval.back().split, "test");
}

TEST(GraphTask, TrainingEndsWhenValidationNoLongerImproves) {
  const OneThread one;
  const ScratchFolder folder;
  RunConfig config = motif_run();
  config.train.select = "best";
  config.train.patience = 2;
  config.train.steps = 300;
  config.train.learning_rate = config.train.final_learning_rate = 0;  // nothing ever improves
  const TrainResult result = train(config, folder / "run", kQuiet);
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.steps, 9);  // three epochs of three steps: the first is the best, two are not better
  EXPECT_TRUE(train(config, folder / "run", kQuiet).finished);
  EXPECT_EQ(read_metrics(folder / "run").train.back().step, 9);
}

TEST(GraphTask, MicroBatchesAddUpToTheWhole) {
  const OneThread one;
  RunConfig config = motif_run();
  const auto loss_and_gradients = [&](int64_t parts) {
    config.train.accumulation = parts;
    const std::unique_ptr<Task> task = make_task(config);
    task->open_training();
    task->make_model(at::kCPU);
    task->load_batch(1);
    at::Tensor total = at::zeros({});
    for (int64_t part = 0; part < parts; ++part) {
      const at::Tensor loss = task->loss(part);
      loss.backward();
      total += loss.detach();
    }
    std::vector<at::Tensor> found{total};
    for (const at::Tensor& parameter : task->model().parameters()) found.push_back(parameter.grad().clone());
    return found;
  };
  const auto whole = loss_and_gradients(1), parts = loss_and_gradients(3);
  ASSERT_EQ(whole.size(), parts.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(testing::close(parts[i], whole[i], 1e-5, 1e-7));
}

/// Two rings of 40 nodes with a chord at each, joined by an edge; the ring is the label, and features tell it badly.
std::string two_rings(const ScratchFolder& folder) {
  std::vector<int64_t> from, to, labels, starts{0}, columns;
  for (int64_t node = 0; node < 80; ++node) {
    const int64_t ring = node / 40, place = node % 40;
    labels.push_back(ring);
    for (const int64_t step : {1, 7}) {
      from.push_back(node);
      to.push_back(ring * 40 + (place + step) % 40);
    }
    columns.push_back(node % 5 == 0 ? ring : 2 + node % 3);
    starts.push_back(std::ssize(columns));
  }
  from.push_back(0);
  to.push_back(40);
  testing::NpzFile file(folder / "rings.npz");
  file.add("src", from).add("dst", to).add("y", labels).add("x_shape", std::vector<int64_t>{80, 5});
  return file.add("x_indptr", starts).add("x_indices", columns).write();
}

RunConfig ring_run(const ScratchFolder& folder, const std::string& kind) {
  RunConfig config = motif_run(kind);
  config.graph_data.kind = "citation";
  config.graph_data.path = two_rings(folder);
  config.graph_data.train_per_class = 15;
  config.graph_data.validation_per_class = 5;
  config.graph_model.width = 8;
  config.graph_model.max_degree = kind == "transformer" ? 6 : 0;
  config.train.select = "best";
  return config;
}

TEST(GraphTask, SurroundingsThatAreTheWholeGraphTrainAsItDoes) {
  const OneThread one;
  for (const std::string kind : {"gcn", "gat", "transformer"}) {
    const ScratchFolder folder;
    RunConfig config = ring_run(folder, kind);
    config.graph_model.mask = kind == "transformer" ? "series" : config.graph_model.mask;
    config.train.batch_size = 30;
    const TrainResult whole = train(config, folder / "whole", kQuiet);
    config.graph_data.fanout = 80;
    config.graph_data.hops = 64;
    const TrainResult seen = train(config, folder / "seen", kQuiet);
    for (const char* split : {"validation", "test"}) {
      EXPECT_NEAR(seen.evaluations.at(split).loss, whole.evaluations.at(split).loss, 1e-4) << kind;
    }
  }
}

TEST(GraphTask, ARunOverTheWholeGraphContinuesBitForBit) {
  const OneThread one;
  const ScratchFolder folder;
  RunConfig config = ring_run(folder, "gkat");
  config.train.batch_size = 30;  // one step an epoch: a run is continued in another epoch than it was begun in
  config.train.log_every = 1;
  train(config, folder / "straight", kQuiet);
  TrainHooks hooks = kQuiet;
  hooks.stop = [](int64_t step) { return step == 4; };
  EXPECT_FALSE(train(config, folder / "broken", hooks).finished);
  EXPECT_TRUE(train(config, folder / "broken", hooks).finished);
  testing::expect_same_run(folder / "straight", folder / "broken");
}

TEST(GraphTask, ARunOverSurroundingsLearnsAndContinuesBitForBit) {
  const OneThread one;
  const ScratchFolder folder;
  RunConfig config = ring_run(folder, "transformer");
  config.graph_model.mask = "grf";
  config.graph_model.resample = "epoch";
  config.graph_data.fanout = 3;
  config.train.batch_size = 8;  // steps of 8, 8, 8 and 6 nodes
  config.train.accumulation = 2;
  config.train.steps = 60;
  const TrainResult result = train(config, folder / "straight", kQuiet);
  EXPECT_GT(result.evaluations.at("test").accuracy, 0.9);
  TrainHooks hooks = kQuiet;
  hooks.stop = [](int64_t step) { return step == 13; };
  EXPECT_FALSE(train(config, folder / "broken", hooks).finished);
  EXPECT_TRUE(train(config, folder / "broken", hooks).finished);
  testing::expect_same_run(folder / "straight", folder / "broken");
}

TEST(GraphTask, LabelsWordsOfTrees) {
  const OneThread one;
  const ScratchFolder folder;
  std::ofstream(folder / "trees.conllu") << sentences();
  RunConfig config = motif_run("transformer");
  config.graph_data.kind = "conllu";
  config.graph_data.path = (folder / "trees.conllu").string();
  config.graph_data.validation_fraction = 0.2;
  config.graph_data.test_fraction = 0.2;
  config.graph_model.mask = "forest";
  config.graph_model.width = 8;
  config.train.batch_size = 4;
  config.train.steps = 60;
  config.train.select = "best";
  const TrainResult result = train(config, folder / "run", kQuiet);
  EXPECT_GT(result.evaluations.at("test").accuracy, 0.9);

  const LoadedTask loaded = load_task(folder.path / "run" / kCheckpointName);
  Task& task = *loaded.task;
  EXPECT_STREQ(task.items(), "graphs");  // what size() and places count
  EXPECT_EQ(task.evaluate("test").confusion.sum().item<int64_t>(), 3 * task.size("test"));
  const GraphView view = view_graph(task, "test", 1);
  EXPECT_TRUE(at::equal(view.labelled, at::arange(3)));
  EXPECT_EQ(view.labels.sizes(), at::IntArrayRef({3}));
  EXPECT_EQ(view.label, view.labels[0].item<int64_t>());
  ASSERT_EQ(view.guesses.sizes(), at::IntArrayRef({3, 17}));
  EXPECT_TRUE(at::equal(view.guesses[0], view.probabilities));
  EXPECT_TRUE(testing::close(view.guesses.sum(1), at::ones({3}), 1e-5, 0));
}

TEST(GraphTask, AFileOfFourSentencesHoldsTwoOut) {
  const OneThread one;
  const ScratchFolder folder;
  std::ofstream(folder / "trees.conllu") << sentences(4);
  RunConfig config = motif_run("transformer");
  config.graph_data.kind = "conllu";
  config.graph_data.path = (folder / "trees.conllu").string();
  config.graph_model.mask = "forest";
  config.graph_model.width = 8;
  config.train.batch_size = 4;
  config.train.steps = 1;
  const TrainResult result = train(config, folder / "run", kQuiet);
  EXPECT_EQ(result.evaluations.at("validation").confusion.sum().item<int64_t>(), 3);
  EXPECT_EQ(result.evaluations.at("test").confusion.sum().item<int64_t>(), 3);
}

TEST(GraphTask, LearnedFunctionsAreThoseOfEachLayersHeads) {
  RunConfig config = motif_run();
  config.graph_model.mask = "series";
  config.graph_model.layer_heads = {3, 1};
  const std::unique_ptr<Task> task = make_task(config);
  task->open_training();
  task->make_model(at::kCPU);
  const at::Tensor f = task->modulation();
  ASSERT_TRUE(f.defined());
  ASSERT_EQ(f.sizes(), at::IntArrayRef({2, 3, 4}));
  EXPECT_TRUE(f[0].isfinite().all().item<bool>());
  EXPECT_TRUE(f[1][0].isfinite().all().item<bool>());
  EXPECT_TRUE(f[1].slice(0, 1).isnan().all().item<bool>());  // heads that the second layer does not have
}

TEST(GraphTask, LearnedFunctionsArePositiveWhereTheirLogarithmsAreLearned) {
  RunConfig config = motif_run();
  config.graph_model.mask = "series";
  config.graph_model.decay = 0.25;
  config.graph_model.positive_mask = true;
  const std::unique_ptr<Task> task = make_task(config);
  task->open_training();
  task->make_model(at::kCPU);
  const at::Tensor start = at::exp(at::arange(4) * -0.25).expand({2, 2, 4});
  EXPECT_TRUE(at::allclose(task->modulation(), start));
  config.graph_model.learn_mask = false;
  const std::unique_ptr<Task> fixed = make_task(config);
  fixed->open_training();
  fixed->make_model(at::kCPU);
  EXPECT_FALSE(fixed->modulation().defined());
}

TEST(GraphTask, LearnedFunctionsOfShortestPathsAreWhatIsAddedToLogits) {
  RunConfig config = motif_run();
  config.graph_model.mask = "shortest_path";
  config.graph_model.decay = 0.25;
  const std::unique_ptr<Task> task = make_task(config);
  task->open_training();
  task->make_model(at::kCPU);
  // Layers, heads, and a value for each distance up to hops = 3 and one for all longer ones.
  EXPECT_TRUE(at::allclose(task->modulation(), (at::arange(5) * -0.25).expand({2, 2, 5})));
  config.graph_model.learn_mask = false;
  const std::unique_ptr<Task> fixed = make_task(config);
  fixed->open_training();
  fixed->make_model(at::kCPU);
  EXPECT_FALSE(fixed->modulation().defined());
}

TEST(GraphTask, WhatDoesNotFitIsRefusedBeforeTheFolderIsMade) {
  const ScratchFolder folder;
  RunConfig config = motif_run();
  config.task = "graph";
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "task must be graphs, images, points or video, got graph");
  config = motif_run();
  config.graph_model.classes = 7;
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "model.classes must be 0 or 2, as the data has it, got 7");
  config = motif_run();
  config.train.accumulation = 12;  // the last step of an epoch has 8 graphs
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "accumulation must be in [1, 8]");
  config = motif_run();
  config.graph_model.positive_mask = true;
  config.graph_data.kind = "tu";  // of no path: the model is refused before data are read
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "train: model.positive_mask must be false for mask gkat");
  config = motif_run();
  config.graph_data.generated_validation = 0;
  config.train.select = "best";
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "select = best needs validation data");
  config = motif_run();
  config.graph_data.generated_validation = config.graph_data.generated_test = 0;
  EXPECT_ERROR(train(config, folder / "run", kQuiet),
               "train: the data must hold something out for validation or testing, got 40 training graphs and nothing");
  config = motif_run();
  config.train.patience = 3;
  EXPECT_ERROR(train(config, folder / "run", kQuiet), "patience must be 0 where select is last, got 3");
  config = motif_run();
  config.graph_data.fanout = 4;
  EXPECT_ERROR(train(config, folder / "run", kQuiet),
               "data.fanout must be 0 where the data is not one graph with labelled nodes, got 4");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(GraphTask, AnImageRunIsNotContinuedAsOneOfGraphs) {
  const OneThread one;
  const ScratchFolder folder;
  RunConfig images = testing::small_run("linear");
  images.train.steps = 1;
  train(images, folder / "run", kQuiet);
  EXPECT_ERROR(train(motif_run(), folder / "run", kQuiet), "it is of a run with task = \"images\"");
}

TEST(GraphConfig, TheTaskDecidesWhichKeysThereAre) {
  const RunConfig config =
      parse_config(R"({"model": {"kind": "gat"}, "task": "graphs", "data": {"motif": "grid"}})", "here: ");
  EXPECT_EQ(config.graph_model.kind, "gat");
  EXPECT_EQ(config.graph_data.motif, "grid");
  EXPECT_EQ(parse_config(to_json(config), "").graph_data.motif, "grid");
  EXPECT_ERROR(parse_config(R"({"task": "graphs", "model": {"patch_size": 4}})", "here: "),
               "here: unknown key 'model.patch_size'");
  EXPECT_ERROR(parse_config(R"({"task": "sound"})", "here: "),
               "here: task must be graphs, images, points or video, got sound");
  EXPECT_ERROR(parse_config(R"({"task": 3})", "here: "), "task must be a string, got 3");
  RunConfig changed;
  override_config(changed, "task", "graphs");
  override_config(changed, "model.mask", "series");
  EXPECT_EQ(changed.variant(), "gkat+series");
  override_config(changed, {{"model.widths", "[4, 2, 2]"}, {"model.layers", "3"}});  // three widths of two layers first
  EXPECT_EQ(changed.graph_model.widths.size(), 3U);
  EXPECT_ERROR(override_config(changed, "model.layers", "2"), "model.widths");
}

}  // namespace
}  // namespace topomask
