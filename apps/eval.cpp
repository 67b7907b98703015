#include <ATen/ATen.h>

#include <numeric>

#include "command.h"
#include "config_arguments.h"
#include "output.h"
#include "run_folder.h"
#include "topomask/train/train.h"

namespace topomask::apps {
namespace {

struct EvalCommand {
  std::string run, split = "test", device = "cpu";
  ConfigArguments changes;
  int64_t batch_size = 500;
  bool per_class = false;
};

const std::map<std::string, Split> kSplits{
    {"train", Split::train}, {"validation", Split::validation}, {"test", Split::test}};

/// The images told right, class by class.
Json class_table(ViT& model, const ImageDataset& dataset, const AugmentOptions& augment, int64_t batch_size,
                 const at::Device& device) {
  const at::NoGradGuard no_grad;
  const auto classes = std::ssize(dataset.classes());
  at::Tensor correct = at::zeros({classes}, at::kLong), images = at::zeros({classes}, at::kLong);
  for (int64_t first = 0; first < dataset.size(); first += batch_size) {
    std::vector<int64_t> places(static_cast<size_t>(std::min(batch_size, dataset.size() - first)));
    std::iota(places.begin(), places.end(), first);
    const TrainBatch batch = prepare(dataset.batch(places), without_mixing(augment), device, 0, 0);
    const at::Tensor right = (model.forward(batch.images).argmax(-1) == batch.labels).to(at::kCPU);
    const at::Tensor labels = batch.labels.to(at::kCPU);
    images += at::bincount(labels, {}, classes);
    correct += at::bincount(labels.index({right}), {}, classes);
  }
  Json rows = Json::array();
  for (int64_t c = 0; c < classes; ++c) {
    const auto count = images[c].item<int64_t>();
    rows.push_back(
        {{"class", dataset.classes()[static_cast<size_t>(c)]},
         {"images", count},
         {"accuracy", count > 0 ? static_cast<double>(correct[c].item<int64_t>()) / static_cast<double>(count) : 0.0}});
  }
  return rows;
}

int run(const EvalCommand& arguments, bool json) {
  LoadedModel loaded = open_run(arguments.run, arguments.device);
  arguments.changes.apply_to(loaded.config);
  const DatasetPtr dataset = open_dataset(loaded.config.data, kSplits.at(arguments.split));
  TORCH_CHECK(dataset->size() > 0, "eval: the split ", arguments.split, " has no images");
  const AugmentOptions augment = augment_options(loaded.config.data, *dataset);
  const Evaluation evaluation = evaluate(*loaded.model, dataset, augment, arguments.batch_size);
  Json result{{"run", arguments.run},      {"variant", loaded.config.model.variant},
              {"step", loaded.step},       {"split", arguments.split},
              {"images", dataset->size()}, {"accuracy", evaluation.accuracy},
              {"loss", evaluation.loss}};
  if (arguments.per_class) {
    result["classes"] =
        class_table(*loaded.model, *dataset, augment, arguments.batch_size, at::Device(arguments.device));
  }
  print(result, json);
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<EvalCommand>();
  CLI::App* command = add_command(app, context, "eval", "Accuracy and loss of a trained model on a split of its data",
                                  "  topomask eval runs/grf\n"
                                  "  topomask eval runs/grf --split validation --per-class --json\n"
                                  "  topomask eval runs/grf --data.path /elsewhere/fashion-mnist",
                                  [arguments, &context] { return run(*arguments, context.json); });
  command->add_option("run", arguments->run, "folder of a run, or a checkpoint file")->required();
  command->add_option("--split", arguments->split, "train, validation or test")
      ->capture_default_str()
      ->check(CLI::IsMember({"train", "validation", "test"}));
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--batch-size", arguments->batch_size, "images at once")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_flag("--per-class", arguments->per_class, "accuracy of each class too");
  arguments->changes.add_to(*command);
}

}  // namespace topomask::apps
