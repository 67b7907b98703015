#include "tasks/scores.h"

#include <ATen/ATen.h>

namespace topomask {

Scores::Scores(int64_t classes, at::Device device) : classes_(classes), loss_(at::zeros({}, at::device(device))) {}

void Scores::add(const at::Tensor& logits, const at::Tensor& labels) {
  loss_ += at::cross_entropy_loss(logits.to(at::kFloat), labels, {}, at::Reduction::Sum);
  labels_.push_back(labels);
  guesses_.push_back(logits.argmax(-1));
}

Evaluation Scores::result() const {
  const at::Tensor labels = labels_.empty() ? at::empty({0}, at::kLong) : at::cat(labels_).to(at::kCPU);
  const at::Tensor guesses = labels_.empty() ? labels : at::cat(guesses_).to(at::kCPU);
  const auto count = static_cast<double>(std::max<int64_t>(labels.size(0), 1));
  Evaluation result{.loss = loss_.item<double>() / count,
                    .accuracy = static_cast<double>((labels == guesses).sum().item<int64_t>()) / count};
  result.confusion =
      at::bincount(labels * classes_ + guesses, {}, classes_ * classes_).view({classes_, classes_}).contiguous();
  return result;
}

}  // namespace topomask
