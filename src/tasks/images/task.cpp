#include <ATen/ATen.h>

#include <map>
#include <optional>

#include "tasks/autocast.h"
#include "tasks/from_data.h"
#include "topomask/data/loader.h"
#include "topomask/tasks/images.h"

namespace topomask {
namespace {

/// Classification of images by a vision transformer.
class ImageTask final : public Task {
 public:
  using Task::Task;

  const char* items() const override { return "images"; }

  void open_training() override {
    config_.model.check();  // before data is read
    const DatasetPtr& training = dataset("train");
    config_ = complete_config(config_, *training);
    const TrainOptions& o = config_.train;
    TORCH_CHECK(o.batch_size <= training->size(), "train: batch_size must be in [1, ", training->size(),
                "], the number of training images, got ", o.batch_size);
    TORCH_CHECK(o.accumulation <= o.batch_size, "train: accumulation must be in [1, ", o.batch_size, "], got ",
                o.accumulation);
    for (const std::string& split : splits()) dataset(split);  // missing data is reported before the first step
    loader_.emplace(training, LoaderOptions{.batch_size = o.batch_size,
                                            .workers = config_.data.workers,
                                            .prefetch = config_.data.prefetch,
                                            .crop_padding = config_.data.crop_padding,
                                            .flip = config_.data.flip,
                                            .seed = o.seed});
  }

  int64_t steps_per_epoch() const override { return loader_->steps_per_epoch(); }

  void load_batch(int64_t step) override {
    if (loader_->step() != step) loader_->seek(step);
    const TrainBatch batch = prepare(loader_->next(), augment("train"), device(), config_.train.seed, step);
    batch_size_ = batch.images.size(0);
    images_ = batch.images.tensor_split(config_.train.accumulation);
    targets_ = (batch.targets.defined() ? batch.targets : batch.labels).tensor_split(config_.train.accumulation);
  }

  at::Tensor loss(int64_t part) override {
    const at::Tensor& images = images_[static_cast<size_t>(part)];
    at::Tensor logits;
    {
      const Autocast autocast(device().type(), config_.train.precision);
      logits = vit().forward(images);
    }
    const at::Tensor mean = at::cross_entropy_loss(logits.to(at::kFloat), targets_[static_cast<size_t>(part)], {},
                                                   at::Reduction::Mean, -100, config_.train.label_smoothing);
    return mean * (static_cast<double>(images.size(0)) / static_cast<double>(batch_size_));
  }

  std::vector<std::string> splits() const override {
    if (config_.data.validation > 0) return {"validation", "test"};
    return {"test"};
  }

  Evaluation evaluate(const std::string& split) override {
    return topomask::evaluate(vit(), dataset(split), augment(split), config_.train.evaluation_batch,
                              config_.train.precision);
  }

  int64_t size(const std::string& split) override { return dataset(split)->size(); }
  std::vector<std::string> classes() override { return dataset("test")->classes(); }
  at::Tensor modulation() override { return vit().modulation(); }

 private:
  std::shared_ptr<torch::nn::Module> new_model() const override {
    return std::make_shared<ViT>(config_.model, config_.train.seed);
  }

  ViT& vit() const { return static_cast<ViT&>(model()); }

  const DatasetPtr& dataset(const std::string& split) {
    DatasetPtr& found = datasets_[split];
    if (!found) found = open_dataset(config_.data, split_named(split));
    return found;
  }

  AugmentOptions augment(const std::string& split) { return augment_options(config_.data, *dataset(split)); }

  std::map<std::string, DatasetPtr> datasets_;  // by split, opened when they are first needed
  std::optional<Loader> loader_;
  std::vector<at::Tensor> images_, targets_;  // of the current batch, a micro-batch each
  int64_t batch_size_ = 0;
};

const TaskRegistration kImages("images", [](const RunConfig& config) { return std::make_unique<ImageTask>(config); });

}  // namespace

RunConfig complete_config(const RunConfig& config, const ImageDataset& dataset) {
  const auto [channels, height, width] = dataset.image_shape();
  TORCH_CHECK(height == width, "train: images must be square, got ", height, " x ", width);
  RunConfig complete = config;
  take_from_data("image_size", complete.model.image_size, height);
  take_from_data("channels", complete.model.channels, channels);
  take_from_data("classes", complete.model.classes, std::ssize(dataset.classes()));
  return complete;
}

}  // namespace topomask
