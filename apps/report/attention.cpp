#include <ATen/ATen.h>

#include <numeric>

#include "attention_picture.h"
#include "core/out_of_memory.h"
#include "report/sections.h"
#include "topomask/data/image.h"
#include "topomask/data/prepare.h"

namespace topomask::apps {
namespace {

/// Images spread over the test set, the same for every model.
ImageBatch pick(const ImageDataset& dataset, int64_t count) {
  std::vector<int64_t> places;
  const int64_t chosen = std::min(count, dataset.size());
  for (int64_t i = 0; i < chosen; ++i) places.push_back(i * dataset.size() / chosen + i % 3);
  for (int64_t& place : places) place = std::min(place, dataset.size() - 1);
  return dataset.batch(places);
}

std::string row_of(const GroupModel& model, const ImageDataset& dataset, const ImageBatch& batch) {
  const at::NoGradGuard no_grad;
  const AugmentOptions augment = without_mixing(augment_options(model.loaded.config.data, dataset));
  const at::Tensor images = prepare(batch, augment, at::kCPU, 0, 0).images;
  const at::Tensor guesses = model.loaded.model->forward(images).argmax(-1);
  const at::Tensor maps = attention_maps(*model.loaded.model, images).mean(0);  // over layers
  std::string row = "<tr><td>" + escape(model.label) + "</td>";
  for (int64_t i = 0; i < maps.size(0); ++i) {
    const auto guess = guesses[i].item<int64_t>();
    const bool right = guess == batch.labels[i].item<int64_t>();
    const std::string& name = dataset.classes().at(static_cast<size_t>(guess));
    const int64_t scale = std::max<int64_t>(1, 96 / batch.images.size(2));
    const at::Tensor large = batch.images[i].repeat_interleave(scale, 1).repeat_interleave(scale, 2);
    const at::Tensor map = (maps[i] - maps[i].min()) / (maps[i].max() - maps[i].min()).clamp_min(1e-12);
    row += "<td>" + inline_image(overlay(large, map), model.label + ": where it looked") + "<br>" +
           (right ? "" : "<span class=\"soft\">✗ ") + escape(name) + (right ? "" : "</span>") + "</td>";
  }
  return row + "</tr>\n";
}

std::string originals(const ImageDataset& dataset, const ImageBatch& batch) {
  std::string row = "<tr><td>image</td>";
  for (int64_t i = 0; i < batch.labels.size(0); ++i) {
    const std::string& name = dataset.classes().at(static_cast<size_t>(batch.labels[i].item<int64_t>()));
    row += "<td>" + inline_image(as_colour(batch.images[i]), name) + "<br>" + escape(name) + "</td>";
  }
  return row + "</tr>\n";
}

}  // namespace

Section attention_section(const std::vector<GroupModel>& models, int64_t examples) {
  std::string body =
      "<p>How much the token that classifies takes from each patch, averaged over heads and layers and scaled "
      "to each picture's range, from dark (the least it took) to yellow (the most); under it the guess. For models "
      "without such a token, the mean over "
      "patches.</p>\n";
  try {
    TORCH_CHECK(!models.empty(), "no model could be loaded");
    const DatasetPtr dataset = open_dataset(models[0].loaded.config.data, Split::test);
    const ImageBatch batch = pick(*dataset, examples);
    body += "<div class=\"wide\"><table class=\"maps\">" + originals(*dataset, batch);
    for (const GroupModel& model : models) body += row_of(model, *dataset, batch);
    body += "</table></div>\n";
  } catch (const c10::Error& error) {
    body += "<p class=\"soft\">There are no pictures here: " + escape(error_text(error)) + "</p>\n";
  }
  return {"attention", "Where they look", body};
}

}  // namespace topomask::apps
