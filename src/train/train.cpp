#include "topomask/train/train.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <span>

#include "config/names.h"
#include "train/device.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace topomask {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double peak_memory_mb(const at::Device& device) {
  if (!device.is_cpu()) {
    const auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.has_index() ? device.index() : 0);
    return static_cast<double>(stats.allocated_bytes[0].peak) / 1e6;
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

std::string format_loss(double loss) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "loss %.4f", loss);
  return text.data();
}

int64_t count_parameters(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

/// A run from its folder to its end: steps, and what is written after them.
class Run {
 public:
  Run(const RunConfig& config, const std::filesystem::path& run_dir, const TrainHooks& hooks)
      : hooks_(hooks),
        task_(make_task(config)),
        device_(usable_device("train: train.device", config.train.device)),
        folder_(run_dir) {
    task_->open_training();
    const auto checkpoint = hooks.restart ? std::nullopt : folder_.resume(task_->config());
    task_->make_model(device_);
    trainer_.emplace(*task_);
    splits_ = task_->splits();
    TORCH_CHECK(!splits_.empty(), "train: the data must hold something out for validation or testing, got ",
                task_->size("train"), " training ", task_->items(), " and nothing else");
    const bool keeps_best = kSelectNames.parse("train", "select", options().select) == KeptWeights::best;
    TORCH_CHECK(!keeps_best || splits_[0] == "validation",
                "train: select = best needs validation data, got a configuration that holds none out");
    TORCH_CHECK(options().patience == 0 || keeps_best, "train: patience must be 0 where select is last, got ",
                options().patience);
    if (checkpoint) restore(*checkpoint);
    // From here on the configuration has been accepted.
    result_.parameters = count_parameters(task_->model());
    result_.steps = result_.resumed_from = trainer_->step();
    folder_.open(/*fresh=*/!checkpoint);
    folder_.write_config(task_->config());
    log_.emplace(run_dir, checkpoint ? checkpoint->step : -1);
  }

  TrainResult go() {
    const int64_t steps = trainer_->steps();
    if (hooks_.progress) bar_.emplace(task_->config().name, trainer_->step(), steps);
    start_ = timed_from_ = interval_from_ = Clock::now();
    show_progress();
    const bool was_finished = trainer_->finished();
    while (!trainer_->finished()) {
      losses_.push_back(trainer_->advance());
      ++interval_steps_;
      const int64_t step = trainer_->step();
      const bool end = step == steps, stopped = !end && hooks_.stop && hooks_.stop(step);
      const bool logs = end || due(options().log_every);
      const bool evaluates = end ? kSelectNames.find(options().select) == KeptWeights::best : due(evaluate_every());
      show_progress();
      if (logs || evaluates || stopped || due(options().checkpoint_every)) check_losses();
      if (logs || stopped) end_interval(/*logged=*/logs);
      if (evaluates) evaluate_split(splits_[0]);
      const bool last = trainer_->finished();
      if (last && !logs) {  // training ended early: validation did not improve
        check_losses();
        end_interval(/*logged=*/true);
      }
      if (last) evaluate_all(/*logged=*/true);
      if (last || stopped || due(options().checkpoint_every)) save();
      if (stopped) return result_;
    }
    if (was_finished) {
      evaluate_all(/*logged=*/false);
      folder_.recall_costs(result_);
    }
    result_.finished = true;
    std::map<std::string, int64_t> sizes{{"train", task_->size("train")}};
    for (const std::string& split : splits_) sizes[split] = task_->size(split);
    folder_.write_summary(task_->config(), result_, sizes);
    return result_;
  }

 private:
  const TrainOptions& options() const { return task_->config().train; }
  bool due(int64_t every) const { return every > 0 && trainer_->step() % every == 0; }
  int64_t evaluate_every() const {
    return options().evaluate_every > 0 ? options().evaluate_every : task_->steps_per_epoch();
  }

  void restore(const Checkpoint& checkpoint) {
    trainer_->restore(checkpoint);
    saved_step_ = checkpoint.step;
    result_.seconds = checkpoint.seconds;
    if (checkpoint.losses.defined()) losses_ = checkpoint.losses.to(device_).unbind();
  }

  /// A checkpoint with such a loss could never be trained further, and its metrics would be meaningless.
  void check_losses() const {
    if (losses_.empty()) return;
    const at::Tensor losses = at::stack(losses_).to(at::kCPU, at::kDouble);  // waits for the device
    const std::span<const double> values(losses.const_data_ptr<double>(), losses_.size());
    const auto bad = std::find_if(values.begin(), values.end(), [](double loss) { return !std::isfinite(loss); });
    if (bad != values.end()) diverged(c10::str("the loss is ", *bad), trainer_->step() + 1 - (values.end() - bad));
  }

  void check_weights(const NamedTensors& weights) const {
    for (const auto& [name, tensor] : weights) {
      if (!tensor.isfinite().all().item<bool>()) diverged(name + " is not finite", trainer_->step());
    }
  }

  [[noreturn]] void diverged(const std::string& what, int64_t step) const {
    const std::string folder = folder_.path().string();
    const std::string advice =
        saved_step_ < 0 ? c10::str(folder, " has no checkpoint yet: the same folder can be used with other settings")
                        : c10::str(folder, " keeps its checkpoint of step ", saved_step_,
                                   ": with other settings, train in another folder or start over with --restart");
    TORCH_CHECK(false, "train: ", what, " at step ", step,
                ": the run has diverged. A lower train.learning_rate, more train.warmup_steps or a train.clip_norm "
                "may help. ",
                advice);
  }

  double mean_loss() const { return at::stack(losses_).mean().item<double>(); }  // waits for the device

  void show_progress() {
    if (!bar_ || !bar_->due()) return;
    const auto items = static_cast<double>(task_->items_per_step() * (trainer_->step() - result_.resumed_from));
    const std::string text = losses_.empty() ? loss_text_ : format_loss(mean_loss());
    bar_->update(trainer_->step(), items / seconds_since(timed_from_), task_->items(), text);
  }

  /// Losses stay for the line that is due later where this one is not logged: a run that is stopped and continued
  /// writes the lines of one that was not.
  void end_interval(bool logged) {
    const double step_ms = 1e3 * seconds_since(interval_from_) / static_cast<double>(interval_steps_);
    intervals_.push_back(step_ms);
    if (!logged) return;
    const TrainMetrics metrics{.step = trainer_->step(),
                               .epoch = trainer_->epoch(),
                               .loss = mean_loss(),
                               .lr = trainer_->last_learning_rate(),
                               .items_per_s = 1e3 * static_cast<double>(task_->items_per_step()) / step_ms,
                               .step_ms = step_ms,
                               .memory_mb = peak_memory_mb(device_)};
    log_->write(metrics);
    if (hooks_.on_metrics) hooks_.on_metrics(metrics);
    loss_text_ = format_loss(metrics.loss);
    losses_.clear();
    interval_steps_ = 0;
    interval_from_ = Clock::now();
  }

  /// Steps are timed without what happened since.
  void leave_out(Clock::time_point since) {
    const auto pause = Clock::now() - since;
    interval_from_ += pause;
    timed_from_ += pause;
  }

  void evaluate_split(const std::string& split, bool logged = true, bool at_end = false) {
    const auto paused = Clock::now();
    const Evaluation evaluation = at_end ? trainer_->evaluated_at_end(split) : trainer_->evaluated(split);
    result_.evaluations[split] = evaluation;
    const EvalMetrics metrics{trainer_->step(), split, evaluation.loss, evaluation.accuracy};
    if (logged) log_->write(metrics);
    if (bar_) bar_->finish();  // the hook may write to the same terminal
    if (logged && hooks_.on_evaluation) hooks_.on_evaluation(metrics);
    leave_out(paused);
  }

  void evaluate_all(bool logged) {
    for (const std::string& split : splits_) evaluate_split(split, logged, /*at_end=*/true);
  }

  void save() {
    const auto paused = Clock::now();
    result_.steps = trainer_->step();
    result_.seconds += seconds_since(std::exchange(start_, Clock::now()));
    result_.peak_memory_mb = peak_memory_mb(device_);
    std::vector<double> sorted = intervals_;
    std::sort(sorted.begin(), sorted.end());
    result_.median_step_ms = sorted.empty() ? 0 : sorted[sorted.size() / 2];
    Checkpoint checkpoint = trainer_->checkpoint();
    check_weights(checkpoint.model);
    checkpoint.seconds = result_.seconds;
    if (!losses_.empty()) checkpoint.losses = at::stack(losses_);
    log_->sync();
    save_checkpoint(checkpoint, folder_.checkpoint());
    saved_step_ = checkpoint.step;
    leave_out(paused);
  }

  TrainHooks hooks_;
  std::unique_ptr<Task> task_;
  at::Device device_;
  RunFolder folder_;
  std::vector<std::string> splits_;  // validation before test
  std::optional<Trainer> trainer_;
  std::optional<MetricsLog> log_;
  std::optional<Progress> bar_;
  TrainResult result_;
  int64_t saved_step_ = -1;         // of the checkpoint in the folder; −1: there is none
  std::vector<at::Tensor> losses_;  // since the last line of metrics
  std::string loss_text_;           // of that line
  int64_t interval_steps_ = 0;      // made by this process since then
  std::vector<double> intervals_;
  Clock::time_point start_, timed_from_, interval_from_;
};

}  // namespace

TrainResult train(const RunConfig& config, const std::filesystem::path& run_dir, const TrainHooks& hooks) {
  return Run(config, run_dir, hooks).go();
}

}  // namespace topomask
