// Training, evaluation, prediction and the report, as a user would call them, on a model of seconds.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"
#include "support/devices.h"
#include "topomask/data/image.h"
#include "topomask/nn/variants.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

const std::string kTinyOnAnyDevice =
    " --quiet --json --data.image_size 16 --data.synthetic_train 32 --data.synthetic_test 16 --model.width 8 "
    "--model.depth 2"
    " --model.heads 2 --model.hops 4 --model.walkers 4 --train.steps 4 --train.batch_size 8 --train.log_every 1"
    " --train.evaluate_every 2 --train.device ";
const std::string kTiny = kTinyOnAnyDevice + "cpu";

/// The runs that the tests below share: three variants, one of them with two seeds.
const std::filesystem::path& trained_runs() {
  static const TemporaryFolder* folder = [] {
    auto* made = new TemporaryFolder;  // goes away when the program ends, below
    std::atexit([] { std::filesystem::remove_all(trained_runs()); });
    for (const auto& [name, options] : {std::pair<std::string, std::string>{"grf-0", "--model.variant grf"},
                                        {"grf-1", "--model.variant grf --train.seed 1"},
                                        {"linear-0", "--model.variant linear --model.cls_token false"},
                                        {"linear-1", "--model.variant linear --model.cls_token false --train.seed 1"},
                                        {"toeplitz-0", "--model.variant toeplitz"}}) {
      const Finished finished = tool("train --out " + made->path().string() + "/" + name + " " + options + kTiny);
      EXPECT_EQ(finished.status, 0) << finished.err;
    }
    return made;
  }();
  return folder->path();
}

std::string run_folder(const std::string& name) {
  return (trained_runs() / name).string();
}

std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (run_command(std::string("command -v ") + name).status == 0) return name;
  }
  return "";
}

/// What stands between a section's tags.
std::string section(const std::string& page, const std::string& id) {
  const size_t start = page.find("<section id=\"" + id + "\">"), end = page.find("</section>", start);
  return start == std::string::npos || end == std::string::npos ? "" : page.substr(start, end - start);
}

}  // namespace

TEST(Runs, TrainingGoesOnWhereItWasStoppedAndLeavesItsFiles) {
  const std::string folder = run_folder("grf-0");
  for (const char* file :
       {"config.json", "metrics.jsonl", "checkpoint.safetensors", "summary.json", "provenance.json"}) {
    EXPECT_TRUE(std::filesystem::exists(folder + "/" + file)) << file;
  }
  const Finished again = tool("train --out " + folder + " --model.variant grf" + kTiny);
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out)["resumed_from"], 4);
  const Finished other = tool("train --out " + folder + " --model.variant linear" + kTiny);
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(has(other.err, "model.variant")) << other.err;
}

TEST(Runs, FoldersMayHaveNamesThatAreNotUtf8) {
  const TemporaryFolder folder;
  const std::string run = folder / "r\xffn";
  const Finished trained = tool("train --out '" + run + "' --model.variant linear" + kTiny);
  ASSERT_EQ(trained.status, 0) << trained.err;
  const std::string shown = nlohmann::json::parse(trained.out)["folder"].get<std::string>();
  EXPECT_TRUE(has(shown, "r\xef\xbf\xbdn")) << shown;
  const auto provenance = nlohmann::json::parse(read_file(run + "/provenance.json"));
  EXPECT_TRUE(has(provenance[0]["command"].get<std::string>(), "r\xef\xbf\xbdn")) << provenance;
  const Finished evaluated = tool("eval '" + run + "' --json");
  EXPECT_EQ(evaluated.status, 0) << evaluated.err;
  const Finished named = tool("train --name '\xff' --out '" + (folder / "other") + "'" + kTiny);
  EXPECT_EQ(named.status, 2);
  EXPECT_TRUE(has(named.err, "name must be UTF-8, got bytes that are not")) << named.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "other"));
}

TEST(Runs, AFinishedRunThatIsGivenAgainKeepsItsTimes) {
  const std::string command = "train --out " + run_folder("linear-1") +
                              " --model.variant linear --model.cls_token false --train.seed 1" + kTiny;
  const auto before = nlohmann::json::parse(read_file(run_folder("linear-1") + "/summary.json"));
  EXPECT_GT(before["step_ms"], 0);
  const Finished again = tool(command);
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out)["step_ms"], before["step_ms"]);
  EXPECT_EQ(nlohmann::json::parse(read_file(run_folder("linear-1") + "/summary.json")), before);
}

TEST(Runs, EvaluationAgreesWithTraining) {
  const Finished finished = tool("eval " + run_folder("grf-0") + " --per-class --json");
  ASSERT_EQ(finished.status, 0) << finished.err;
  const auto result = nlohmann::json::parse(finished.out);
  EXPECT_EQ(result["images"], 16);
  EXPECT_EQ(result["classes"].size(), 4);
  const auto summary = nlohmann::json::parse(read_file(run_folder("grf-0") + "/summary.json"));
  EXPECT_EQ(result["accuracy"], summary["accuracy"]["test"]);
  EXPECT_EQ(summary["items"]["test"], 16);
  EXPECT_GT(summary["items"]["train"], 0);
}

TEST(Runs, EvaluationIsThatOfTrainingToTheLastBit) {
  std::vector<std::string> cases = {"grf --train.precision bfloat16", "exact --train.evaluation_batch 5"};
  for (const std::string& variant : variant_names()) cases.push_back(variant);
  const TemporaryFolder folder;
  for (const at::Device device : devices()) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const std::string name = device.is_cpu() ? "cpu" : "cuda", run = folder / name + std::to_string(i);
      SCOPED_TRACE(cases[i] + " on " + name);
      const Finished trained = tool("train --out " + run + " --train.learning_rate 0.02 --model.variant " + cases[i] +
                                    kTinyOnAnyDevice + name);
      ASSERT_EQ(trained.status, 0) << trained.err;
      const Finished finished = tool("eval " + run + " --json");
      ASSERT_EQ(finished.status, 0) << finished.err;
      EXPECT_EQ(finished.err, "");  // which would say that another device is taken
      const auto result = nlohmann::json::parse(finished.out);
      std::istringstream lines(read_file(run + "/metrics.jsonl"));
      nlohmann::json last;
      for (std::string line; std::getline(lines, line);) {
        const auto metrics = nlohmann::json::parse(line);
        if (metrics.value("split", "") == "test") last = metrics;
      }
      EXPECT_EQ(result["loss"], last["loss"]);
      EXPECT_EQ(result["accuracy"], last["accuracy"]);
    }
  }
}

TEST(Runs, PredictionNamesClassesAndDraws) {
  const TemporaryFolder folder;
  write_png(folder / "a.png", at::randint(256, {3, 20, 30}).to(at::kByte));
  for (const char* run : {"grf-0", "linear-0"}) {
    const Finished finished =
        tool("predict " + run_folder(run) + " " + folder / "a.png" + " --top 2 --json --picture " + folder / "p.png");
    ASSERT_EQ(finished.status, 0) << finished.err;
    const auto result = nlohmann::json::parse(finished.out);
    ASSERT_EQ(result.size(), 2);
    EXPECT_GE(result[0]["probability"], result[1]["probability"]);
    EXPECT_GT(read_image(folder / "p.png").size(2), 3 * 16);
  }
  const Finished missing = tool("predict " + run_folder("grf-0") + " nowhere.png");
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(has(missing.err, "nowhere.png: cannot open the file"));
}

TEST(Report, HoldsEverythingAndAsksForNothing) {
  const TemporaryFolder folder;
  const Finished finished = tool("report " + trained_runs().string() + " --out " + folder / "r.html");
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(has(finished.out, "within noise (±") || has(finished.out, "beyond noise (±") ||
              has(finished.out, "no claim"))
      << finished.out;
  const std::string page = read_file(folder / "r.html");
  for (const char* id : {"accuracy", "curves", "cost", "modulation"}) EXPECT_TRUE(has(section(page, id), "<svg")) << id;
  for (const char* id : {"masks", "attention"}) EXPECT_TRUE(has(section(page, id), "data:image/png")) << id;
  EXPECT_TRUE(has(section(page, "accuracy"), "±"));  // spread over two seeds
  EXPECT_TRUE(has(section(page, "masks"), "class=\"scale\""));
  EXPECT_FALSE(has(page, "http:") || has(page, "https:") || has(page, "url(") || has(page, "<script"));
  EXPECT_TRUE(has(page, "default-src 'none'"));
  const auto json = nlohmann::json::parse(
      tool("report " + run_folder("grf-0") + " --json --no-pictures --out " + folder / "s.html").out);
  EXPECT_EQ(json["groups"][0]["variant"], "grf");
}

TEST(Report, OfOneSeedClaimsNothingAndSaysHowToGetMore) {
  const TemporaryFolder folder;
  const Finished finished = tool("report " + run_folder("grf-0") + " " + run_folder("linear-0") + " " +
                                 run_folder("toeplitz-0") + " --no-pictures --out " + folder / "r.html");
  ASSERT_EQ(finished.status, 0) << finished.err;
  const std::string page = read_file(folder / "r.html");
  for (const std::string& text : {finished.out, page}) {
    for (const char* claim : {"beyond ±", "within ±", "beyond noise (", "within noise ("}) {
      EXPECT_FALSE(has(text, claim)) << text;
    }
  }
  for (const char* green : {"class=\"better\"", "class=\"sure\"", "class=\"worse\""}) EXPECT_FALSE(has(page, green));
  EXPECT_TRUE(has(finished.out, "One seed allows no claim")) << finished.out;
  EXPECT_TRUE(has(finished.out, "make demo SEEDS=\"0 1 2\"")) << finished.out;
}

TEST(Report, SaysHowTheRunsWereMade) {
  const TemporaryFolder folder;
  ASSERT_EQ(tool("report " + trained_runs().string() + " --no-pictures --out " + folder / "r.html").status, 0);
  const std::string setup = section(read_file(folder / "r.html"), "setup");
  for (const char* text :
       {" UTC", "topomask report ", "topomask train --out ", "--train.seed 1", " cores (", "model.variant",
        "model.cls_token", "train.learning_rate", "model.width", "16 test images"}) {
    EXPECT_TRUE(has(setup, text)) << text << "\n" << setup;
  }
}

TEST(Report, ShowsInABrowser) {
  const std::string chromium = browser();
  if (chromium.empty()) GTEST_SKIP() << "needs chromium on the PATH (Debian: apt-get install chromium)";
  const TemporaryFolder folder;
  ASSERT_EQ(tool("report " + trained_runs().string() + " --out " + folder / "r.html").status, 0);
  const std::string call = "cd " + folder.path().string() + " && HOME=" + folder.path().string() + " timeout 120 " +
                           chromium +
                           " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars "
                           "--window-size=400,3000 ";
  const Finished dom = run_command(call + "--dump-dom file://" + folder / "r.html");
  ASSERT_EQ(dom.status, 0) << dom.err;
  for (const char* id : {"accuracy", "curves", "cost", "masks", "modulation", "attention", "setup"}) {
    EXPECT_GT(section(dom.out, id).size(), 500) << id;
  }
  const Finished shot = run_command(call + "--screenshot=" + folder / "r.png" + " file://" + folder / "r.html");
  ASSERT_EQ(shot.status, 0) << shot.err;
  const at::Tensor picture = read_image(folder / "r.png").to(at::kFloat);
  // Something is drawn all the way down: no band of the page is blank.
  for (const at::Tensor& band : picture.chunk(6, 1)) EXPECT_GT(band.std().item<double>(), 4);
}
