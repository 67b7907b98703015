#include <limits>

#include "config/nearest_key.h"
#include "support/compare.h"
#include "topomask/config.h"

using namespace topomask;

namespace {

RunConfig parse(const std::string& json) {
  return parse_config(json, "run.json: ");
}

}  // namespace

TEST(ConfigRanges, AreCheckedWhenAFileIsRead) {
  EXPECT_ERROR(parse(R"({"train": {"beta1": 1}})"), "run.json: train.beta1 must be in [0, 1), got 1");
  EXPECT_ERROR(parse(R"({"train": {"learning_rate": -1e-3}})"),
               "run.json: train.learning_rate must be >= 0, got -0.001");
  EXPECT_ERROR(parse(R"({"model": {"feature_offset": -1}})"), "run.json: model.feature_offset must be >= 0, got -1");
  EXPECT_ERROR(parse(R"({"train": {"epsilon": 1e-300}})"),
               "run.json: train.epsilon must be at least 1e-30, which float32 tells from 0, got 1e-300");
  EXPECT_ERROR(parse(R"({"data": {"standard_deviation": [1e-300]}})"),
               "run.json: data.standard_deviation must be at least 1e-6, got 1e-300");
  EXPECT_ERROR(parse(R"({"data": {"mixup": -2}})"), "run.json: data.mixup must be >= 0, got -2");
  EXPECT_ERROR(parse(R"({"data": {"kind": "imagenet"}})"), "run.json: data.kind must be idx, cifar10, cifar100,");
}

TEST(ConfigRanges, AreCheckedWhenAKeyIsSet) {
  RunConfig config;
  EXPECT_ERROR(override_config(config, "train.beta2", "1.5"), "train.beta2 must be in [0, 1), got 1.5");
  config = {};
  EXPECT_ERROR(override_config(config, "model.width", "0"), "model.width must be >= 1, got 0");
}

TEST(ConfigRanges, NoNumberIsBeyondWhatFloat32CanHold) {
  for (const std::string& task : task_names()) {
    const RunConfig defaults = parse("{\"task\": \"" + task + "\"}");
    RunConfig listed = defaults;
    for (const OptionField& field : option_fields(listed)) {
      auto* const* list = std::get_if<std::vector<double>*>(&field.value);
      if (!list && !std::holds_alternative<double*>(field.value)) continue;
      for (const std::string number : {"1e300", "-1e300"}) {
        std::string value = number;
        for (size_t i = 1; list && i < (*list)->size(); ++i) value += "," + number;
        RunConfig config = defaults;
        EXPECT_ERROR(override_config(config, field.key, value), field.key + " must be");
      }
    }
  }
}

TEST(ConfigRanges, LetSeveralKeysBeChangedInAnyOrder) {
  RunConfig config;
  override_config(config, "model.width", "100");  // three heads do not divide it yet
  override_config(config, "model.heads", "4");
  EXPECT_EQ(config.model.head_dim(), 25);
}

TEST(ConfigNumbers, BeyondFloat64AreRefusedWithTheirLine) {
  EXPECT_ERROR(parse("{\"train\": {\n  \"learning_rate\": 1e999\n}}"),
               "run.json: a number is out of the range of float64 at line 2: number overflow parsing '1e999'");
  RunConfig config;
  EXPECT_ERROR(override_config(config, "train.learning_rate", "1e999"),
               "train.learning_rate must be a number, got '1e999'");
}

TEST(NearestKey, IsNamedInErrors) {
  EXPECT_ERROR(parse(R"({"modle": {"width": 3}})"), "run.json: unknown key 'modle'; did you mean 'model'?");
  EXPECT_ERROR(parse(R"({"trian": {}})"), "unknown key 'trian'; did you mean 'train'?");
  EXPECT_ERROR(parse(R"({"model": {"widht": 3}})"), "unknown key 'model.widht'; did you mean 'model.width'?");
  EXPECT_ERROR(parse(R"({"train": {"lr": 0.1}})"), "unknown key 'train.lr'; did you mean 'train.learning_rate'?");
  RunConfig config;
  EXPECT_ERROR(override_config(config, "train.lr", "0.1"),
               "unknown key 'train.lr'; did you mean 'train.learning_rate'?");
  EXPECT_ERROR(override_config(config, "modle.width", "3"), "unknown key 'modle.width'; did you mean 'model.width'?");
}

TEST(NearestKey, KnowsInitialsWordsAndOtherSections) {
  RunConfig config;
  std::vector<std::string> known;
  for (const OptionField& field : option_fields(config)) known.push_back(field.key);
  const auto nearest = [&](const char* key) { return nearest_key(key, known).value_or("none"); };
  EXPECT_EQ(nearest("lr"), "train.learning_rate");
  EXPECT_EQ(nearest("train.bs"), "train.batch_size");
  EXPECT_EQ(nearest("train.wd"), "train.weight_decay");
  EXPECT_EQ(nearest("model.cls"), "model.cls_token");
  EXPECT_EQ(nearest("train.smoothing"), "train.label_smoothing");
  EXPECT_EQ(nearest("train.width"), "model.width");
  EXPECT_EQ(nearest("train.zzzzzzzz"), "none");
}
