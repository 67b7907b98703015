#include "train/trainer.h"

#include <ATen/ATen.h>

#include "core/checks.h"
#include "core/option_checks.h"
#include "core/philox.h"
#include "topomask/config.h"
#include "topomask/train/schedule.h"
#include "train/autocast.h"

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

LoaderOptions loader_options(const RunConfig& config) {
  return {.batch_size = config.train.batch_size,
          .workers = config.data.workers,
          .prefetch = config.data.prefetch,
          .crop_padding = config.data.crop_padding,
          .flip = config.data.flip,
          .seed = config.train.seed};
}

const RunConfig& checked(const RunConfig& config, const ImageDataset& dataset) {
  const TrainOptions& o = config.train;
  o.check();
  TORCH_CHECK(o.batch_size >= 1 && o.batch_size <= dataset.size(), "train: batch_size must be in [1, ", dataset.size(),
              "], the number of training images, got ", o.batch_size);
  TORCH_CHECK(o.accumulation >= 1 && o.accumulation <= o.batch_size, "train: accumulation must be in [1, ",
              o.batch_size, "], got ", o.accumulation);
  checked_product("train", "the steps, epochs x steps of an epoch,", {o.epochs, dataset.size() / o.batch_size},
                  OptionChecks::kLargest);
  return config;
}

}  // namespace

Trainer::Trainer(const RunConfig& config, const DatasetPtr& dataset)
    : config_(checked(config, *dataset)),
      device_(config.train.device),
      augment_(augment_options(config.data, *dataset)),
      model_(std::make_shared<ViT>(config.model, config.train.seed)),
      loader_(dataset, loader_options(config)) {
  if (!config.train.pretrained.empty()) {
    const Checkpoint pretrained = load_checkpoint(config.train.pretrained);
    load_weights(*model_, pretrained.average.empty() ? pretrained.model : pretrained.average, /*other_head=*/true);
  }
  model_->to(device_);
  optimiser_ = std::make_unique<Optimiser>(*model_, config.train);
  average_ = std::make_unique<MovingAverage>(*model_, config.train.ema_decay);
  steps_ = config.train.steps > 0 ? config.train.steps : config.train.epochs * loader_.steps_per_epoch();
}

double Trainer::last_learning_rate() const {
  return learning_rate(config_.train, std::max<int64_t>(step_ - 1, 0), steps_);
}

at::Tensor Trainer::advance() {
  seed_step(config_.train.seed, step_);
  const TrainBatch batch = prepare(loader_.next(), augment_, device_, config_.train.seed, step_);
  const auto images = batch.images.tensor_split(config_.train.accumulation);
  const auto targets =
      (batch.targets.defined() ? batch.targets : batch.labels).tensor_split(config_.train.accumulation);
  model_->train();
  at::Tensor total = at::zeros({}, at::device(device_));
  for (size_t part = 0; part < images.size(); ++part) {
    at::Tensor logits;
    {
      const Autocast autocast(device_.type(), config_.train.precision);
      logits = model_->forward(images[part]);
    }
    const at::Tensor loss = at::cross_entropy_loss(logits.to(at::kFloat), targets[part], {}, at::Reduction::Mean, -100,
                                                   config_.train.label_smoothing);
    const at::Tensor share =
        loss * (static_cast<double>(images[part].size(0)) / static_cast<double>(batch.images.size(0)));
    share.backward();
    total += share.detach();
  }
  optimiser_->step(learning_rate(config_.train, step_, steps_));
  average_->update(step_);
  ++step_;
  return total;
}

Evaluation Trainer::evaluated(const DatasetPtr& dataset) {
  average_->exchange();
  const Evaluation result =
      evaluate(*model_, dataset, augment_, config_.train.evaluation_batch, config_.train.precision);
  average_->exchange();
  return result;
}

Checkpoint Trainer::checkpoint() const {
  return {.step = step_,
          .config = to_json(config_),
          .model = weights(*model_),
          .average = average_->state(),
          .optimiser = optimiser_->state()};
}

void Trainer::restore(const Checkpoint& checkpoint) {
  load_weights(*model_, checkpoint.model);
  average_->restore(checkpoint.average);
  optimiser_->restore(checkpoint.optimiser);
  step_ = checkpoint.step;
  loader_.seek(step_);
}

}  // namespace topomask
