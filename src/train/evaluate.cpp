#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <numeric>

#include "topomask/train/train.h"
#include "train/autocast.h"

namespace topomask {

Evaluation evaluate(ViT& model, const DatasetPtr& dataset, const AugmentOptions& augment, int64_t batch_size,
                    const std::string& precision) {
  TORCH_CHECK(batch_size >= 1, "evaluate: batch_size must be >= 1, got ", batch_size);
  TORCH_CHECK(dataset != nullptr, "evaluate: dataset must be given, got none");
  const at::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const FrozenMasks frozen(model);  // computed once for all batches
  const at::Device device = model.parameters()[0].device();
  const AugmentOptions plain = without_mixing(augment);
  at::Tensor loss = at::zeros({}, at::device(device)), correct = at::zeros({}, at::device(device).dtype(at::kLong));
  std::vector<at::Tensor> labels, hits;
  for (int64_t first = 0; first < dataset->size(); first += batch_size) {
    std::vector<int64_t> indices(static_cast<size_t>(std::min(batch_size, dataset->size() - first)));
    std::iota(indices.begin(), indices.end(), first);
    const TrainBatch batch = prepare(dataset->batch(indices), plain, device, 0, 0);
    at::Tensor logits;
    {
      const Autocast autocast(device.type(), precision);
      logits = model.forward(batch.images);
    }
    loss += at::cross_entropy_loss(logits.to(at::kFloat), batch.labels, {}, at::Reduction::Sum);
    labels.push_back(batch.labels);
    hits.push_back(logits.argmax(-1) == batch.labels);
    correct += hits.back().sum();
  }
  model.train(was_training);
  const auto images = static_cast<double>(std::max<int64_t>(dataset->size(), 1));
  Evaluation result{.loss = loss.item<double>() / images,
                    .accuracy = static_cast<double>(correct.item<int64_t>()) / images};
  const auto classes = std::ssize(dataset->classes());
  const at::Tensor all = labels.empty() ? at::empty({0}, at::kLong) : at::cat(labels).to(at::kCPU);
  const at::Tensor right = labels.empty() ? all : all.index({at::cat(hits).to(at::kCPU)});
  const auto counts = [&](const at::Tensor& of) {
    const at::Tensor counted = at::bincount(of, {}, classes).contiguous();
    return std::vector<int64_t>(counted.const_data_ptr<int64_t>(), counted.const_data_ptr<int64_t>() + classes);
  };
  result.class_images = counts(all);
  result.class_correct = counts(right);
  return result;
}

}  // namespace topomask
