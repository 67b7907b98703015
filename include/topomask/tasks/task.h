#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "topomask/export.h"
#include "topomask/run_config.h"

namespace TOPOMASK_API topomask {

/// A score for each step of a rollout, on average over a split; NaN where a step has none.
struct ScoreCurve {
  std::string name;
  std::vector<double> values;
};

/// How well a model does on a split: classifies, or predicts what happens.
struct Evaluation {
  double loss = 0;            ///< mean cross-entropy, or mean squared error of colours
  double accuracy = 0;        ///< what Task::score names: higher is better, at most 1
  at::Tensor confusion = {};  ///< int64 [classes, classes]: how often a true class (row) was taken for another (column)
  std::vector<ScoreCurve> curves = {};  ///< of tasks that predict step after step, with their floors
};

/// What is trained: data, batches, a model, a loss, and how well the model does. The training loop knows nothing else.
/// A batch is a function of (configuration, step), so that a run continues at any step as if it had never stopped.
class Task {
 public:
  explicit Task(RunConfig config) : config_(std::move(config)) {}
  virtual ~Task() = default;

  const RunConfig& config() const { return config_; }
  virtual const char* items() const = 0;                    ///< what it classifies: "images"
  virtual const char* score() const { return "accuracy"; }  ///< what Evaluation::accuracy is

  /// Opens the training data and completes the configuration with what the data decides (sizes, classes); where the
  /// configuration says something else, that is an error.
  virtual void open_training() = 0;

  /// The model, with first weights by the configuration's seed, on `device`. The configuration is complete: that of a
  /// checkpoint is, so that a model can be made without its training data.
  void make_model(at::Device device);
  torch::nn::Module& model() const;
  at::Device device() const { return device_; }

  // Training, after open_training and make_model.
  virtual int64_t steps_per_epoch() const = 0;
  virtual int64_t items_per_step() const { return config_.train.batch_size; }
  /// Makes the batch of a step the current one. Steps in sequence may be prepared ahead.
  virtual void load_batch(int64_t step) = 0;
  /// The part of the current batch's mean loss that comes from micro-batch `part` of config().train.accumulation: their
  /// sum over parts is the loss. A scalar with a gradient.
  virtual at::Tensor loss(int64_t part) = 0;

  /// Those that are evaluated while training: validation, where some data is held out, before test.
  virtual std::vector<std::string> splits() const = 0;
  /// train, validation or test, without dropout, in batches of config().train.evaluation_batch.
  virtual Evaluation evaluate(const std::string& split) = 0;
  virtual int64_t size(const std::string& split) = 0;  ///< items of a split
  virtual std::vector<std::string> classes() = 0;      ///< their names

  /// f or α of each layer and head, [L, H, K]; undefined where the model learns neither.
  virtual at::Tensor modulation() { return {}; }

 protected:
  virtual std::shared_ptr<torch::nn::Module> new_model() const = 0;

  RunConfig config_;

 private:
  std::shared_ptr<torch::nn::Module> model_;
  at::Device device_ = at::kCPU;
};

using TaskFactory = std::function<std::unique_ptr<Task>(const RunConfig&)>;

/// A task is a folder in src/tasks with one of these at namespace scope.
struct TaskRegistration {
  TaskRegistration(std::string name, TaskFactory factory);
};

/// The task that config.task names; what is out of range in `config.train` is refused first.
std::unique_ptr<Task> make_task(const RunConfig& config);

}  // namespace topomask
