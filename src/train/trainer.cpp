#include "train/trainer.h"

#include <ATen/ATen.h>

#include "config/names.h"
#include "core/checks.h"
#include "core/option_checks.h"
#include "core/philox.h"
#include "topomask/config.h"
#include "topomask/train/schedule.h"

namespace topomask {
namespace {

/// Dropout of a step is drawn from (seed, step): there is no state of a generator to carry on.
void seed_step(uint64_t seed, int64_t step) {
  constexpr uint32_t kDropout = 0xD509;  // apart from what the data draws
  const auto s = static_cast<uint64_t>(step);
  const PhiloxWords words =
      philox({static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32), 0, kDropout}, philox_key(seed));
  at::manual_seed(uint64_t{words.a} << 32 | words.b);
}

/// The task's model, with the weights of another run where the configuration names one.
const torch::nn::Module& with_pretrained(Task& task) {
  const std::string& path = task.config().train.pretrained;
  if (!path.empty()) load_weights(task.model(), load_checkpoint(path).judged(), /*other_head=*/true);
  return task.model();
}

}  // namespace

Trainer::Trainer(Task& task)
    : task_(task),
      options_(task.config().train),
      optimiser_(with_pretrained(task), options_),
      average_(task.model(), options_.ema_decay),
      best_(task.model(), kSelectNames.find(options_.select) == KeptWeights::best),
      steps_(options_.steps > 0 ? options_.steps
                                : checked_product("train", "the steps, epochs x steps of an epoch,",
                                                  {options_.epochs, task.steps_per_epoch()}, OptionChecks::kLargest)) {}

double Trainer::last_learning_rate() const {
  return learning_rate(options_, std::max<int64_t>(step_ - 1, 0), steps_);
}

bool Trainer::out_of_patience() const {
  return options_.patience > 0 && best_.evaluations_since() >= options_.patience;
}

at::Tensor Trainer::advance() {
  seed_step(options_.seed, step_);
  task_.load_batch(step_);
  task_.model().train();
  at::Tensor total = at::zeros({}, at::device(task_.device()));
  for (int64_t part = 0; part < options_.accumulation; ++part) {
    const at::Tensor loss = task_.loss(part);
    loss.backward();
    total += loss.detach();
  }
  optimiser_.step(learning_rate(options_, step_, steps_));
  average_.update(step_);
  ++step_;
  return total;
}

Evaluation Trainer::evaluated(const std::string& split) {
  average_.exchange();
  const Evaluation result = task_.evaluate(split);
  if (split == "validation") best_.offer(result);
  average_.exchange();
  return result;
}

Evaluation Trainer::evaluated_at_end(const std::string& split) {
  if (!best_.enabled()) return evaluated(split);
  best_.exchange();
  const Evaluation result = task_.evaluate(split);
  best_.exchange();
  return result;
}

Checkpoint Trainer::checkpoint() const {
  return {.step = step_,
          .config = to_json(task_.config()),
          .model = weights(task_.model()),
          .average = average_.state(),
          .best = best_.state(),
          .optimiser = optimiser_.state(),
          .best_score = best_.score()};
}

void Trainer::restore(const Checkpoint& checkpoint) {
  load_weights(task_.model(), checkpoint.model);
  average_.restore(checkpoint.average);
  best_.restore(checkpoint.best, checkpoint.best_score);
  optimiser_.restore(checkpoint.optimiser);
  step_ = checkpoint.step;
}

}  // namespace topomask
