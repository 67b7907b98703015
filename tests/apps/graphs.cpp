// Runs of graphs through the tool: train, eval, predict, report.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/graphs/graph_files.h"
#include "graph_picture.h"
#include "process.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

const std::string kSmall =
    " --set task=graphs --data.generated_train 24 --data.generated_validation 8 --data.generated_test 8"
    " --model.walkers 5 --train.batch_size 12 --train.steps 4 --train.select best --quiet";

}  // namespace

TEST(Graphs, ARunIsTrainedEvaluatedPredictedAndReported) {
  const TemporaryFolder folder;
  const std::string gkat = folder / "gkat", gcn = folder / "gcn";
  Finished finished = tool("train --out " + gkat + kSmall);
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(has(finished.out, "task                 graphs"));
  finished = tool("train --out " + gcn + " --set task=graphs --model.kind gcn" + kSmall.substr(kSmall.find(" --data")));
  ASSERT_EQ(finished.status, 0) << finished.err;

  finished = tool("eval " + gkat + " --per-class");
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(has(finished.out, "graphs    8")) << finished.out;
  EXPECT_TRUE(has(finished.out, "caveman")) << finished.out;

  const std::string picture = folder / "graphs.svg";
  finished = tool("predict " + gkat + " 0 5 --picture " + picture);
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(has(finished.out, "true class")) << finished.out;
  EXPECT_TRUE(has(read_file(picture), "attention of the ringed node"));
  finished = tool("predict " + gkat + " 8");
  EXPECT_EQ(finished.status, 2);
  EXPECT_TRUE(has(finished.err, "predict: a place must be below 8, the graphs of the test split, got 8"))
      << finished.err;
  finished = tool("predict " + gkat + " boot.png");
  EXPECT_EQ(finished.status, 2);
  EXPECT_TRUE(has(finished.err, "whole numbers from 0, got 'boot.png'")) << finished.err;

  for (const char* seed : {"1", "2"}) {
    finished = tool("train --out " + gcn + seed + " --set task=graphs --model.kind gcn --train.seed " + seed +
                    kSmall.substr(kSmall.find(" --data")));
    ASSERT_EQ(finished.status, 0) << finished.err;
  }
  finished = tool("report " + gcn + "2 " + gcn + " " + gcn + "1 --no-pictures --out " + folder / "seeds.html");
  EXPECT_TRUE(has(finished.out, "0, 1, 2")) << finished.out;

  const std::string page = folder / "report.html";
  finished = tool("report " + gkat + " " + gcn + " --out " + page);
  ASSERT_EQ(finished.status, 0) << finished.err;
  for (const char* part : {"What they look at", "Which classes are taken for which", "attention of the marked node",
                           "graphs a second", "8 test graphs"}) {
    EXPECT_TRUE(has(read_file(page), part)) << part;
  }
}

TEST(Graphs, NodesOfANetworkAreEvaluatedPredictedAndReported) {
  const TemporaryFolder folder;
  std::vector<int64_t> from, to, labels, starts{0}, columns;
  for (int64_t node = 0; node < 60; ++node) {
    from.push_back(node);
    to.push_back(node / 20 * 20 + (node + 1) % 20);
    labels.push_back(node / 20);
    columns.push_back(node / 20);
    starts.push_back(node + 1);
  }
  NpzFile file(folder / "rings.npz");
  file.add("src", from).add("dst", to).add("y", labels).add("x_shape", std::vector<int64_t>{60, 3});
  const std::string run = folder / "gkat", data = file.add("x_indptr", starts).add("x_indices", columns).write();
  Finished finished =
      tool("train --out " + run + " --set task=graphs --data.kind citation --data.path " + data +
           " --data.train_per_class 5 --data.validation_per_class 3 --model.mask series" +
           " --model.readout layer --set model.layer_heads=[4,1] --train.steps 30 --train.log_every 5 --quiet");
  ASSERT_EQ(finished.status, 0) << finished.err;
  finished = tool("eval " + run + " --per-class");
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(has(finished.out, "nodes     36")) << finished.out;
  EXPECT_FALSE(has(finished.out, "labels")) << finished.out;
  const std::string picture = folder / "nodes.svg", page = folder / "report.html";
  finished = tool("predict " + run + " 0 35 --picture " + picture + " --json");
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(nlohmann::json::parse(finished.out).size(), 6) << finished.out;  // three classes each
  EXPECT_TRUE(has(read_file(picture), "attention of the ringed node"));
  finished = tool("report " + run + " --out " + page);
  ASSERT_EQ(finished.status, 0) << finished.err;
  for (const char* part : {"36 test nodes", "layer 2: learned coefficients", "attention of the marked node"}) {
    EXPECT_TRUE(has(read_file(page), part)) << part;
  }
  EXPECT_FALSE(has(read_file(page), "nan"));
}

TEST(Graphs, WordsOfSentencesAreEvaluatedPredictedAndReported) {
  const TemporaryFolder folder;
  std::string text;
  for (int sentence = 0; sentence < 20; ++sentence) {
    text += "1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\tdog" + std::to_string(sentence) +
            "\tdog\tNOUN\t_\t_\t3\tnsubj\t_\t_\n3\tbarks\tbark\tVERB\t_\t_\t0\troot\t_\t_\n\n";
  }
  write_file(folder / "trees.conllu", text);
  const std::string run = folder / "forest";
  Finished finished = tool("train --out " + run + " --set task=graphs --data.kind conllu --data.path " +
                           (folder / "trees.conllu") + " --data.validation_fraction 0.2 --data.test_fraction 0.2" +
                           " --model.kind transformer --model.mask forest --model.width 8 --train.steps 10" +
                           " --train.batch_size 4 --quiet");
  ASSERT_EQ(finished.status, 0) << finished.err;
  finished = tool("eval " + run + " --per-class");
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(has(finished.out, "graphs    4")) << finished.out;
  EXPECT_TRUE(has(finished.out, "labels")) << finished.out;
  const std::string picture = folder / "words.svg", page = folder / "report.html";
  finished = tool("predict " + run + " 0 3 --picture " + picture + " --json");
  ASSERT_EQ(finished.status, 0) << finished.err;
  const auto rows = nlohmann::json::parse(finished.out);
  ASSERT_EQ(rows.size(), 6) << finished.out;  // three words each
  EXPECT_EQ(rows[4]["node"], 1);
  EXPECT_EQ(rows[4]["true class"], "NOUN");
  finished = tool("report " + run + " --out " + page);
  ASSERT_EQ(finished.status, 0) << finished.err;
  for (const char* part : {"4 test graphs", "Which classes are taken for which", "labels"}) {
    EXPECT_TRUE(has(read_file(page), part)) << part;
  }
}

TEST(Graphs, ADryRunCountsAndWritesNothing) {
  const TemporaryFolder folder;
  const Finished finished = tool("train --dry-run --json --out " + (folder / "run") + kSmall);
  ASSERT_EQ(finished.status, 0) << finished.err;
  const auto planned = nlohmann::json::parse(finished.out);
  EXPECT_EQ(planned["parameters"], 1280);
  EXPECT_EQ(planned["train graphs"], 24);
  EXPECT_EQ(planned["validation graphs"], 8);
  EXPECT_EQ(planned["steps per epoch"], 2);
  EXPECT_EQ(planned["steps"], 4);
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(Graphs, KeysAreThoseOfTheTask) {
  const Finished images = tool("train --keys"), graphs = tool("train --keys --set task=graphs");
  EXPECT_TRUE(has(images.out, "model.patch_size"));
  EXPECT_FALSE(has(images.out, "data.motif"));
  EXPECT_TRUE(has(graphs.out, "data.motif"));
  EXPECT_FALSE(has(graphs.out, "model.patch_size"));
}

TEST(GraphPicture, NeighboursLieCloserThanOthers) {
  const Graph path = Graph::path(12);
  const at::Tensor places = apps::spring_layout(path, 3);
  const at::Tensor steps = (places.slice(0, 1) - places.slice(0, 0, 11)).norm(2, {1});
  const double ends = (places[0] - places[11]).norm().item<double>();
  EXPECT_LT(steps.max().item<double>(), 0.5 * ends);
  EXPECT_GE(places.min().item<double>(), 0);
  EXPECT_LE(places.max().item<double>(), 1);
  EXPECT_TRUE(at::equal(places, apps::spring_layout(path, 3)));
}

TEST(GraphPicture, DrawsEveryNodeAndEachEdgeOnce) {
  const Graph graph = Graph::cycle(5);
  const std::string svg = apps::graph_picture(graph, apps::spring_layout(graph), at::arange(5.0), {.title = "a < b"});
  const auto count = [&](const std::string& what) {
    size_t found = 0;
    for (size_t at = 0; (at = svg.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("<circle"), 5);
  EXPECT_EQ(count("<line"), 5);
  EXPECT_TRUE(has(svg, "a &lt; b"));
}
