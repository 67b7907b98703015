#include <limits>

#include "support/compare.h"
#include "topomask/run_config.h"
#include "topomask/train/moving_average.h"
#include "topomask/train/optimiser.h"
#include "topomask/train/schedule.h"
#include "topomask/train/train.h"

using namespace topomask;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class Change>
void expect_refused(const Change& change, const std::string& text) {
  TrainOptions options;
  change(options);
  EXPECT_ERROR(options.check(), "train: " + text);
  // The paths of those who never see a configuration file.
  torch::nn::Module model;
  model.register_parameter("w", at::zeros({2, 2}));
  EXPECT_ERROR(Optimiser(model, options), "train: " + text);
  RunConfig config;
  config.train = options;
  EXPECT_ERROR(train(config, "/nowhere/at/all"), "train: " + text);
}

}  // namespace

TEST(TrainOptions, DefaultsAreInRange) {
  TrainOptions().check();
  RunConfig().check();
}

TEST(TrainOptions, BetasAreBelowOne) {
  for (const double beta : {-0.1, 1.0, 1.5, kNan}) {
    expect_refused([&](auto& o) { o.beta1 = beta; }, "beta1 must be in [0, 1), got");
    expect_refused([&](auto& o) { o.beta2 = beta; }, "beta2 must be in [0, 1), got");
  }
}

TEST(TrainOptions, RatesDecaysAndClipsAreNotNegative) {
  const std::vector<std::pair<const char*, double TrainOptions::*>> fields{
      {"learning_rate", &TrainOptions::learning_rate},
      {"final_learning_rate", &TrainOptions::final_learning_rate},
      {"mask_learning_rate", &TrainOptions::mask_learning_rate},
      {"weight_decay", &TrainOptions::weight_decay},
      {"clip_norm", &TrainOptions::clip_norm}};
  for (const auto& [name, field] : fields) {
    const auto set = [&](double value) { return [=](TrainOptions& o) { o.*field = value; }; };
    expect_refused(set(-1), std::string(name) + " must be >= 0, got -1");
    expect_refused(set(kNan), std::string(name) + " must be >= 0, got nan");
    expect_refused(set(INFINITY), std::string(name) + " must be finite, got inf");
  }
  expect_refused([](auto& o) { o.epsilon = 0; }, "epsilon must be > 0, got 0");
  expect_refused([](auto& o) { o.epsilon = -1e-8; }, "epsilon must be > 0, got -1e-08");
  expect_refused([](auto& o) { o.label_smoothing = -0.1; }, "label_smoothing must be in [0, 1], got -0.1");
  expect_refused([](auto& o) { o.ema_decay = 1; }, "ema_decay must be in [0, 1), got 1");
}

TEST(TrainOptions, CountsAndIntervalsAreInRange) {
  const std::vector<std::pair<const char*, int64_t TrainOptions::*>> from_zero{
      {"epochs", &TrainOptions::epochs},
      {"steps", &TrainOptions::steps},
      {"warmup_steps", &TrainOptions::warmup_steps},
      {"constant_steps", &TrainOptions::constant_steps},
      {"log_every", &TrainOptions::log_every},
      {"evaluate_every", &TrainOptions::evaluate_every},
      {"checkpoint_every", &TrainOptions::checkpoint_every}};
  for (const auto& [name, field] : from_zero) {
    expect_refused([f = field](TrainOptions& o) { o.*f = -1; }, std::string(name) + " must be >= 0, got -1");
    expect_refused([f = field](TrainOptions& o) { o.*f = INT64_MAX; }, std::string(name) + " must be at most 2^53");
  }
  expect_refused([](auto& o) { o.batch_size = 0; }, "batch_size must be >= 1, got 0");
  expect_refused([](auto& o) { o.accumulation = 0; }, "accumulation must be >= 1, got 0");
  expect_refused([](auto& o) { o.evaluation_batch = -3; }, "evaluation_batch must be >= 1, got -3");
}

TEST(TrainOptions, NamesAreKnown) {
  expect_refused([](auto& o) { o.device = "gpu"; }, "device must be cpu, cuda or cuda:N, got gpu");
  expect_refused([](auto& o) { o.device = "cuda:x"; }, "device must be cpu, cuda or cuda:N, got cuda:x");
  expect_refused([](auto& o) { o.precision = "float8"; }, "precision must be float32 or bfloat16, got float8");
  expect_refused([](auto& o) { o.optimiser = "sgd"; }, "optimiser must be adamw or adam, got sgd");
}

TEST(TrainArguments, OfTheStepsAreInRange) {
  torch::nn::Module model;
  model.register_parameter("w", at::zeros({2, 2}));
  Optimiser optimiser(model, {});
  EXPECT_ERROR(optimiser.step(-1e-3), "Optimiser::step: learning_rate must be finite and >= 0, got -0.001");
  EXPECT_ERROR(optimiser.step(kNan), "Optimiser::step: learning_rate must be finite and >= 0, got nan");
  EXPECT_ERROR(MovingAverage(model, 0.5).update(-1), "MovingAverage::update: step must be >= 0, got -1");
  EXPECT_ERROR(learning_rate({}, -1, 10), "learning_rate: step and steps must be >= 0, got -1 and 10");
}
