#include "command.h"
#include "config_arguments.h"
#include "output.h"
#include "run_folder.h"
#include "topomask/train/train.h"
#include "train/autocast.h"

namespace topomask::apps {
namespace {

struct EvalCommand {
  std::string run, split = "test", device;
  ConfigArguments changes;
  std::optional<int64_t> batch_size;
  bool per_class = false;
};

const std::map<std::string, Split> kSplits{
    {"train", Split::train}, {"validation", Split::validation}, {"test", Split::test}};

/// The accuracy of each class.
Json class_table(const ImageDataset& dataset, const Evaluation& evaluation) {
  Json rows = Json::array();
  for (size_t c = 0; c < dataset.classes().size(); ++c) {
    const int64_t images = evaluation.class_images[c];
    const auto correct = static_cast<double>(evaluation.class_correct[c]);
    rows.push_back({{"class", dataset.classes()[c]},
                    {"images", images},
                    {"accuracy", images > 0 ? correct / static_cast<double>(images) : 0.0}});
  }
  return rows;
}

int run(const EvalCommand& arguments, bool json) {
  if (!arguments.device.empty()) check_device_name(arguments.device);
  LoadedModel loaded = open_run(arguments.run);
  arguments.changes.apply_to(loaded.config);
  const at::Device device = evaluation_device(arguments.device, loaded.config);
  loaded.model->to(device);
  const DatasetPtr dataset = open_dataset(loaded.config.data, kSplits.at(arguments.split));
  TORCH_CHECK(dataset->size() > 0, "eval: the split ", arguments.split, " has no images");
  const AugmentOptions augment = augment_options(loaded.config.data, *dataset);
  // As in training, so that the numbers are the same.
  const TrainOptions& trained = loaded.config.train;
  const int64_t batch_size = arguments.batch_size.value_or(trained.evaluation_batch);
  const Evaluation evaluation = evaluate(*loaded.model, dataset, augment, batch_size, trained.precision);
  Json result{{"run", arguments.run},      {"variant", loaded.config.model.variant},
              {"step", loaded.step},       {"split", arguments.split},
              {"images", dataset->size()}, {"accuracy", evaluation.accuracy},
              {"loss", evaluation.loss},   {"device", device.str()}};
  if (arguments.per_class) result["classes"] = class_table(*dataset, evaluation);
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
  command->add_option(
      "--device", arguments->device,
      "cpu, cuda or cuda:N; otherwise where the run was trained, or the CPU where there is no such GPU");
  command->add_option("--batch-size", arguments->batch_size, "images at once; as in training where it is not given")
      ->check(CLI::PositiveNumber);
  command->add_flag("--per-class", arguments->per_class, "accuracy of each class too");
  arguments->changes.add_to(*command);
}

}  // namespace topomask::apps
