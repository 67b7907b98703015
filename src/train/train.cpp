#include "topomask/train/train.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>

#include <chrono>

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

/// A run from its folder to its end: steps, and what is written after them.
class Run {
 public:
  Run(const RunConfig& config, const std::filesystem::path& run_dir, const TrainHooks& hooks)
      : hooks_(hooks),
        training_(open_dataset(config.data, Split::train)),
        config_(complete_config(config, *training_)) {
    if (config.data.validation > 0) splits_["validation"] = open_dataset(config.data, Split::validation);
    splits_["test"] = open_dataset(config.data, Split::test);
    folder_.emplace(run_dir);
    const auto checkpoint = folder_->resume(config_);
    trainer_.emplace(config_, training_);
    if (checkpoint) trainer_->restore(*checkpoint);
    result_ = {.steps = trainer_->step(),
               .resumed_from = trainer_->step(),
               .parameters = trainer_->model().parameter_count(),
               .seconds = checkpoint ? checkpoint->seconds : 0};
    folder_->write_config(config_);
    log_.emplace(run_dir, checkpoint ? checkpoint->step : -1);
  }

  TrainResult go() {
    const int64_t steps = trainer_->steps();
    std::optional<Progress> bar;
    if (hooks_.progress) bar.emplace(config_.name, trainer_->step(), steps);
    start_ = interval_start_ = Clock::now();
    const bool was_finished = trainer_->step() >= steps;
    while (trainer_->step() < steps) {
      losses_.push_back(trainer_->advance());
      const int64_t step = trainer_->step();
      const bool last = step == steps, stopped = !last && hooks_.stop && hooks_.stop(step);
      if (last || stopped || due(config_.train.log_every)) log_interval(bar);
      if (!last && due(evaluate_every())) evaluate_split(splits_.begin()->first);
      if (last) evaluate_all(/*logged=*/true);
      if (last || stopped || due(config_.train.checkpoint_every)) save();
      if (stopped) return result_;
    }
    if (was_finished) evaluate_all(/*logged=*/false);
    result_.finished = true;
    folder_->write_summary(config_, result_);
    return result_;
  }

 private:
  bool due(int64_t every) const { return every > 0 && trainer_->step() % every == 0; }
  int64_t evaluate_every() const {
    return config_.train.evaluate_every > 0 ? config_.train.evaluate_every : trainer_->steps_per_epoch();
  }

  void log_interval(std::optional<Progress>& bar) {
    if (losses_.empty()) return;
    const double loss = at::stack(losses_).mean().item<double>();  // waits for the device
    const double step_ms = 1e3 * seconds_since(interval_start_) / static_cast<double>(losses_.size());
    TORCH_CHECK(std::isfinite(loss), "train: the loss is ", loss, " at step ", trainer_->step(),
                "; a lower learning_rate or a clip_norm may help. The last checkpoint is as it was");
    intervals_.push_back(step_ms);
    const TrainMetrics metrics{.step = trainer_->step(),
                               .epoch = trainer_->epoch(),
                               .loss = loss,
                               .lr = trainer_->last_learning_rate(),
                               .images_per_s = 1e3 * static_cast<double>(config_.train.batch_size) / step_ms,
                               .step_ms = step_ms,
                               .memory_mb = peak_memory_mb(at::Device(config_.train.device))};
    log_->write(metrics);
    if (hooks_.on_metrics) hooks_.on_metrics(metrics);
    if (bar) bar->update(trainer_->step(), metrics.images_per_s, "images", c10::str("loss ", loss));
    losses_.clear();
    interval_start_ = Clock::now();
  }

  void evaluate_split(const std::string& split, bool logged = true) {
    const auto paused = Clock::now();
    const Evaluation evaluation = trainer_->evaluated(splits_.at(split));
    result_.evaluations[split] = evaluation;
    const EvalMetrics metrics{trainer_->step(), split, evaluation.loss, evaluation.accuracy};
    if (logged) log_->write(metrics);
    if (logged && hooks_.on_evaluation) hooks_.on_evaluation(metrics);
    interval_start_ += Clock::now() - paused;  // steps are timed without it
  }

  void evaluate_all(bool logged) {
    for (const auto& [split, dataset] : splits_) evaluate_split(split, logged);
  }

  void save() {
    const auto paused = Clock::now();
    result_.steps = trainer_->step();
    result_.seconds += seconds_since(std::exchange(start_, Clock::now()));
    result_.peak_memory_mb = peak_memory_mb(at::Device(config_.train.device));
    std::vector<double> sorted = intervals_;
    std::sort(sorted.begin(), sorted.end());
    result_.median_step_ms = sorted.empty() ? 0 : sorted[sorted.size() / 2];
    Checkpoint checkpoint = trainer_->checkpoint();
    checkpoint.seconds = result_.seconds;
    save_checkpoint(checkpoint, folder_->checkpoint());
    interval_start_ += Clock::now() - paused;
  }

  TrainHooks hooks_;
  DatasetPtr training_;
  RunConfig config_;
  std::map<std::string, DatasetPtr, std::greater<>> splits_;  // validation before test
  std::optional<RunFolder> folder_;
  std::optional<Trainer> trainer_;
  std::optional<MetricsLog> log_;
  TrainResult result_;
  std::vector<at::Tensor> losses_;  // since the last line of metrics
  std::vector<double> intervals_;
  Clock::time_point start_, interval_start_;
};

}  // namespace

RunConfig complete_config(const RunConfig& config, const ImageDataset& dataset) {
  const auto [channels, height, width] = dataset.image_shape();
  TORCH_CHECK(height == width, "train: images must be square, got ", height, " x ", width);
  RunConfig complete = config;
  const auto take = [](const char* name, int64_t& option, int64_t value) {
    TORCH_CHECK(option == 0 || option == value, "train: model.", name, " must be 0 or ", value,
                ", as the data has it, got ", option);
    option = value;
  };
  take("image_size", complete.model.image_size, height);
  take("channels", complete.model.channels, channels);
  take("classes", complete.model.classes, std::ssize(dataset.classes()));
  return complete;
}

TrainResult train(const RunConfig& config, const std::filesystem::path& run_dir, const TrainHooks& hooks) {
  config.train.check();  // before data is read and a folder made
  config.model.check();
  return Run(config, run_dir, hooks).go();
}

}  // namespace topomask
