#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <numeric>

#include "tasks/autocast.h"
#include "tasks/scores.h"
#include "topomask/tasks/images.h"

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
  Scores scores(std::ssize(dataset->classes()), device);
  for (int64_t first = 0; first < dataset->size(); first += batch_size) {
    std::vector<int64_t> indices(static_cast<size_t>(std::min(batch_size, dataset->size() - first)));
    std::iota(indices.begin(), indices.end(), first);
    const TrainBatch batch = prepare(dataset->batch(indices), plain, device, 0, 0);
    at::Tensor logits;
    {
      const Autocast autocast(device.type(), precision);
      logits = model.forward(batch.images);
    }
    scores.add(logits, batch.labels);
  }
  model.train(was_training);
  return scores.result();
}

}  // namespace topomask
