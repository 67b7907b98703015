#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <map>
#include <numeric>
#include <optional>

#include "tasks/autocast.h"
#include "tasks/from_data.h"
#include "tasks/scores.h"
#include "tasks/video/clip_loader.h"
#include "topomask/nn/attention.h"
#include "topomask/nn/vivit.h"
#include "topomask/tasks/video.h"

namespace topomask {
namespace {

/// Classification of clips by a video vision transformer.
class VideoTask final : public Task {
 public:
  using Task::Task;

  const char* items() const override { return "clips"; }

  void open_training() override {
    config_.video_model.check("train: model.");  // before data is read
    const VideoPtr& training = clips("train");
    config_ = complete_config(config_, *training);
    const TrainOptions& o = config_.train;
    TORCH_CHECK(o.batch_size <= training->size(), "train: batch_size must be in [1, ", training->size(),
                "], the number of training clips, got ", o.batch_size);
    TORCH_CHECK(o.accumulation <= o.batch_size, "train: accumulation must be in [1, ", o.batch_size, "], got ",
                o.accumulation);
    for (const std::string& split : splits()) clips(split);  // what is missing is said before the first step
    loader_.emplace(training, o.batch_size, config_.video_data.workers, o.seed);
  }

  int64_t steps_per_epoch() const override { return loader_->steps_per_epoch(); }

  void load_batch(int64_t step) override {
    const VideoBatch batch = loader_->load(step);
    batch_size_ = batch.clips.size(0);
    clips_ = prepare_clips(batch.clips, device()).tensor_split(config_.train.accumulation);
    labels_ = batch.labels.to(device()).tensor_split(config_.train.accumulation);
  }

  at::Tensor loss(int64_t part) override {
    const at::Tensor& clips = clips_[static_cast<size_t>(part)];
    const at::Tensor mean = at::cross_entropy_loss(logits(clips).to(at::kFloat), labels_[static_cast<size_t>(part)], {},
                                                   at::Reduction::Mean, -100, config_.train.label_smoothing);
    return mean * (static_cast<double>(clips.size(0)) / static_cast<double>(batch_size_));
  }

  std::vector<std::string> splits() const override {
    if (config_.video_data.validation > 0) return {"validation", "test"};
    return {"test"};
  }

  Evaluation evaluate(const std::string& split) override {
    const at::NoGradGuard no_grad;
    const bool was_training = model().is_training();
    model().eval();
    const FrozenMasks frozen(model());  // computed once for all batches
    const VideoPtr& data = clips(split);
    Scores scores(std::ssize(data->classes()), device());
    const int64_t step = config_.train.evaluation_batch;
    for (int64_t first = 0; first < data->size(); first += step) {
      std::vector<int64_t> places(static_cast<size_t>(std::min(step, data->size() - first)));
      std::iota(places.begin(), places.end(), first);
      const VideoBatch batch = data->batch(places);
      scores.add(logits(prepare_clips(batch.clips, device())), batch.labels.to(device()));
    }
    model().train(was_training);
    return scores.result();
  }

  int64_t size(const std::string& split) override { return clips(split)->size(); }
  std::vector<std::string> classes() override { return clips("test")->classes(); }
  at::Tensor modulation() override { return vivit().modulation(); }

  ClipView view(const std::string& split, int64_t place) {
    const VideoPtr& data = clips(split);
    TORCH_CHECK(place >= 0 && place < data->size(), "view_clip: place must be in [0, ", data->size(), "), the ", split,
                " split, got ", place);
    const at::NoGradGuard no_grad;
    const VideoBatch batch = data->batch({place});
    const at::Tensor guess = logits(prepare_clips(batch.clips, device()));
    return {batch.clips[0], batch.labels[0].item<int64_t>(), guess[0].to(at::kCPU, at::kFloat).softmax(0)};
  }

 private:
  std::shared_ptr<torch::nn::Module> new_model() const override {
    return std::make_shared<ViViT>(config_.video_model, config_.train.seed);
  }

  ViViT& vivit() const { return static_cast<ViViT&>(model()); }

  at::Tensor logits(const at::Tensor& clips) {
    const Autocast autocast(device().type(), config_.train.precision);
    return vivit().forward(clips);
  }

  const VideoPtr& clips(const std::string& split) {
    VideoPtr& found = data_[split];
    if (!found) found = open_videos(config_.video_data, split_named(split));
    return found;
  }

  std::map<std::string, VideoPtr> data_;  // by split, opened when they are first needed
  std::optional<ClipLoader> loader_;
  std::vector<at::Tensor> clips_, labels_;  // of the current batch, a micro-batch each
  int64_t batch_size_ = 0;
};

const TaskRegistration kVideo("video", [](const RunConfig& config) { return std::make_unique<VideoTask>(config); });

}  // namespace

RunConfig complete_config(const RunConfig& config, const VideoDataset& dataset) {
  const auto [frames, channels, height, width] = dataset.clip_shape();
  TORCH_CHECK(height == width, "train: frames must be square, got ", height, " x ", width);
  RunConfig complete = config;
  take_from_data("frames", complete.video_model.frames, frames);
  take_from_data("image_size", complete.video_model.image_size, height);
  take_from_data("channels", complete.video_model.channels, channels);
  take_from_data("classes", complete.video_model.classes, std::ssize(dataset.classes()));
  return complete;
}

at::Tensor prepare_clips(const at::Tensor& clips, at::Device device) {
  return clips.to(device).to(at::kFloat) / 127.5 - 1;
}

ClipView view_clip(Task& task, const std::string& split, int64_t place) {
  auto* video = dynamic_cast<VideoTask*>(&task);
  TORCH_CHECK(video != nullptr, "view_clip: task must be one of video, got one of ", task.items());
  return video->view(split, place);
}

}  // namespace topomask
