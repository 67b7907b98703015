#include <ATen/ATen.h>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "config_arguments.h"
#include "data/names.h"
#include "output.h"
#include "run_folder.h"
#include "topomask/train/train.h"

namespace topomask::apps {
namespace {

struct EvalCommand {
  std::string run, split = "test", device;
  ConfigArguments changes;
  std::optional<int64_t> batch_size;
  bool per_class = false;
};

/// The accuracy of each class.
Json class_table(const std::vector<std::string>& classes, const char* items, const Evaluation& evaluation) {
  Json rows = Json::array();
  for (size_t c = 0; c < classes.size(); ++c) {
    const at::Tensor row = evaluation.confusion[static_cast<int64_t>(c)];
    const auto count = row.sum().item<int64_t>();
    const auto correct = static_cast<double>(row[static_cast<int64_t>(c)].item<int64_t>());
    rows.push_back(
        {{"class", classes[c]}, {items, count}, {"accuracy", count > 0 ? correct / static_cast<double>(count) : 0.0}});
  }
  return rows;
}

int run(const EvalCommand& arguments, bool json, Activity& activity) {
  activity.stage("opening " + arguments.run);
  const LoadedTask loaded = open_task(arguments.run, arguments.device, [&](RunConfig& config) {
    arguments.changes.apply_to(config);
    if (arguments.batch_size) config.train.evaluation_batch = *arguments.batch_size;
  });
  Task& task = *loaded.task;
  const int64_t size = task.size(arguments.split);
  TORCH_CHECK(size > 0, "eval: the split ", arguments.split, " has no ", task.items());
  activity.stage("evaluating the split " + arguments.split);
  const Evaluation evaluation = task.evaluate(arguments.split);  // as in training, so that the numbers are the same
  const std::string score = (evaluation.curves.empty() ? "" : "mean_") + std::string(task.score());
  Json result{{"run", arguments.run},    {"variant", task.config().variant()},
              {"step", loaded.step},     {"split", arguments.split},
              {task.items(), size},      {score, evaluation.accuracy},
              {"loss", evaluation.loss}, {"device", task.device().str()}};
  for (const ScoreCurve& curve : evaluation.curves) result[curve.name] = curve.values;
  // A sentence has a label for each word.
  const bool one_each = evaluation.confusion.defined() && evaluation.confusion.sum().item<int64_t>() == size;
  if (arguments.per_class)
    result["classes"] = class_table(task.classes(), one_each ? task.items() : "labels", evaluation);
  activity.finish();
  print(result, json);
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<EvalCommand>();
  CLI::App* command =
      add_command(app, context, "eval", "Accuracy and loss of a trained model on a split of its data",
                  "  topomask eval runs/grf\n"
                  "  topomask eval runs/grf --split validation --per-class --json\n"
                  "  topomask eval runs/grf --data.path /elsewhere/fashion-mnist",
                  [arguments, &context](Activity& activity) { return run(*arguments, context.json, activity); });
  command->add_option("run", arguments->run, "folder of a run, or a checkpoint file")->required();
  command->add_option("--split", arguments->split, "train, validation or test")
      ->capture_default_str()
      ->check(one_of(kSplitNames.all()));
  command->add_option(
      "--device", arguments->device,
      "cpu, cuda or cuda:N; otherwise where the run was trained, or the CPU where there is no such GPU");
  command
      ->add_option("--batch-size", arguments->batch_size,
                   "images or graphs at once; as in training where it is not given")
      ->check(whole_number(1, std::numeric_limits<int32_t>::max()));
  command->add_flag("--per-class", arguments->per_class, "accuracy of each class too");
  arguments->changes.add_to(*command);
}

}  // namespace topomask::apps
