#include "topomask/train/train.h"

#include <chrono>
#include <csignal>
#include <iostream>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "config_arguments.h"
#include "output.h"
#include "provenance.h"
#include "train/metrics.h"

namespace topomask::apps {
namespace {

struct TrainCommand {
  std::string config, folder, name;
  ConfigArguments changes;
  double stop_after = 0;
  bool keys = false, dry = false, quiet = false, restart = false;
};

volatile std::sig_atomic_t interrupted = 0;

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof(text), "%.2f %%", 100 * share);
  return text;
}

TrainHooks make_hooks(const TrainCommand& arguments) {
  std::signal(SIGINT, [](int) { interrupted = 1; });
  std::signal(SIGTERM, [](int) { interrupted = 1; });
  TrainHooks hooks;
  hooks.progress = !arguments.quiet;
  hooks.restart = arguments.restart;
  if (!arguments.quiet) {
    hooks.on_evaluation = [](const EvalMetrics& metrics) {
      std::cerr << "step " << metrics.step << ": " << metrics.split << " accuracy " << percent(metrics.accuracy)
                << ", loss " << metrics.loss << "\n";
    };
  }
  const auto start = std::chrono::steady_clock::now();
  hooks.stop = [start, limit = arguments.stop_after](int64_t) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return interrupted != 0 || (limit > 0 && seconds > limit);
  };
  return hooks;
}

Json as_json(const RunConfig& config, const std::string& folder, const TrainResult& result) {
  Json json{{"name", config.name},
            {"task", config.task},
            {"variant", config.variant()},
            {"seed", config.train.seed},
            {"finished", result.finished},
            {"steps", result.steps},
            {"resumed_from", result.resumed_from},
            {"parameters", result.parameters},
            {"seconds", result.seconds},
            {"step_ms", result.median_step_ms},
            {"peak_memory_mb", result.peak_memory_mb}};
  for (const auto& [split, evaluation] : result.evaluations) {
    json[split + "_accuracy"] = evaluation.accuracy;
    json[split + "_loss"] = evaluation.loss;
  }
  json["folder"] = folder;
  return json;
}

/// What a run would train and see; nothing is trained or written.
Json planned(const RunConfig& config) {
  const std::unique_ptr<Task> task = make_task(config);
  task->open_training();
  task->make_model(at::kCPU);
  int64_t parameters = 0;
  for (const at::Tensor& parameter : task->model().parameters()) parameters += parameter.numel();
  const TrainOptions& options = task->config().train;
  Json json{{"name", config.name},
            {"task", config.task},
            {"variant", task->config().variant()},
            {"parameters", parameters},
            {"steps per epoch", task->steps_per_epoch()},
            {"steps", options.steps > 0 ? options.steps : options.epochs * task->steps_per_epoch()}};
  json[std::string("train ") + task->items()] = task->size("train");
  for (const std::string& split : task->splits()) json[split + " " + task->items()] = task->size(split);
  return json;
}

int run(const TrainCommand& arguments, bool json, Activity& activity) {
  if (arguments.keys) {
    RunConfig config;
    if (!arguments.config.empty()) config = read_config(arguments.config);
    arguments.changes.apply_to(config);
    print(config_keys(config), json);
    return 0;
  }
  RunConfig config = arguments.config.empty() ? RunConfig{} : read_config(arguments.config);
  ConfigArguments changes = arguments.changes;
  if (!arguments.name.empty()) changes.add("name", arguments.name);
  changes.apply_to(config);
  if (arguments.dry) {
    activity.quietly("opening the data of " + config.name);
    print(planned(config), json);
    return 0;
  }
  if (arguments.folder.empty()) throw UsageError("train needs a folder for the run: --out FOLDER");
  activity.quietly("training the model of " + config.name);
  const std::string started = date_now();
  const TrainResult result = train(config, arguments.folder, make_hooks(arguments));
  record_provenance(arguments.folder, started);
  print(as_json(config, arguments.folder, result), json);
  if (!result.finished) std::cerr << "stopped after " << result.steps << " steps; the same command resumes the run\n";
  return result.finished || arguments.stop_after > 0 ? 0 : 1;
}

}  // namespace

void add_train(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<TrainCommand>();
  CLI::App* command = add_command(
      app, context, "train", "Train a model of images, graphs, videos or point clouds, or resume a run",
      "  topomask train --out runs/first                        the defaults, on synthetic images\n"
      "  topomask train fashion.json --out runs/grf --model.variant grf --train.seed 1\n"
      "  topomask train fashion.json --out runs/big --model.preset tiny --set train.epochs=20\n"
      "  topomask train fashion.json --out runs/big --stop-after 500    stops after 500 s; the same command continues\n"
      "  topomask train fashion.json --dry-run                  parameters, items and steps, without training\n"
      "  topomask train --keys                                  every key, its default and meaning\n"
      "  topomask train --keys --set task=graphs                those of models of graphs\n"
      "The run's folder gets config.json, metrics.jsonl, TensorBoard events, checkpoint.safetensors, summary.json and\n"
      "provenance.json (command, date and machine).",
      [arguments, &context](Activity& activity) { return run(*arguments, context.json, activity); });
  command->add_option("config", arguments->config, "JSON file with keys of the configuration; comments are allowed");
  command->add_option("--out", arguments->folder, "folder of the run");
  command->add_option("--name", arguments->name, "what the run is called in tables");
  command
      ->add_option("--stop-after", arguments->stop_after,
                   "seconds; then write a checkpoint and stop, status 0; 0: no limit")
      ->check(finite_number(">= 0", [](double seconds) { return seconds >= 0; }));
  command->add_flag("--restart", arguments->restart, "start over where the folder has a checkpoint, which is removed");
  command->add_flag("--dry-run", arguments->dry,
                    "only print how many parameters, items and steps there are; needs no --out and writes nothing");
  command->add_flag("--keys", arguments->keys, "list the keys of the configuration");
  command->add_flag("--quiet", arguments->quiet, "no progress on stderr");
  arguments->changes.add_to(*command);
}

}  // namespace topomask::apps
