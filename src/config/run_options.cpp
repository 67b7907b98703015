#include "config/names.h"
#include "core/device_name.h"
#include "core/option_checks.h"
#include "topomask/run_config.h"

namespace topomask {
void TrainOptions::check(const std::string& origin) const {
  const OptionChecks check(origin);
  check.that(is_device_name(device), "device", "cpu, cuda or cuda:N, got ", device);
  check.one_of("precision", precision, kPrecisionNames.all());
  check.at_least("epochs", epochs, 0);
  check.at_least("steps", steps, 0);
  check.at_least("batch_size", batch_size, 1);
  check.at_least("accumulation", accumulation, 1);
  check.one_of("optimiser", optimiser, kOptimiserNames.all());
  check.not_negative("learning_rate", learning_rate);
  check.not_negative("final_learning_rate", final_learning_rate);
  check.at_least("warmup_steps", warmup_steps, 0);
  check.at_least("constant_steps", constant_steps, 0);
  check.one_of("schedule", schedule, kScheduleNames.all());
  check.not_negative("mask_learning_rate", mask_learning_rate);
  check.fraction("beta1", beta1);
  check.fraction("beta2", beta2);
  check.positive("epsilon", epsilon, check.kLargestParameter);
  check.that(epsilon >= 1e-30, "epsilon", "at least 1e-30, which float32 tells from 0, got ", epsilon);
  check.not_negative("weight_decay", weight_decay);
  check.not_negative("clip_norm", clip_norm);
  check.fraction("label_smoothing", label_smoothing, /*closed=*/true);
  check.fraction("ema_decay", ema_decay);
  check.one_of("select", select, kSelectNames.all());
  check.at_least("patience", patience, 0);
  check.at_least("log_every", log_every, 0);
  check.at_least("evaluate_every", evaluate_every, 0);
  check.at_least("checkpoint_every", checkpoint_every, 0);
  check.at_least("evaluation_batch", evaluation_batch, 1);
}

std::vector<std::string> task_names() {
  return {"graphs", "images", "points", "video"};
}

void RunConfig::check(const std::string& origin) const {
  OptionChecks(origin).one_of("task", task, task_names());
  if (task == "points") {
    episode_data.check(origin + "data.");
    point_model.check(origin + "model.");
  } else if (task == "video") {
    video_data.check(origin + "data.");
    video_model.check(origin + "model.");
  } else if (task == "graphs") {
    graph_data.check(origin + "data.");
    graph_model.check(origin + "model.");
  } else {
    data.check(origin + "data.");
    model.check(origin + "model.");
  }
  train.check(origin + "train.");
}

std::string RunConfig::variant() const {
  if (task == "images") return model.variant;
  if (task == "points") return point_model.local;
  if (task == "video") return (video_model.joint() ? "joint " : "") + video_model.variant;
  const bool own_mask = graph_model.kind == "transformer" || (graph_model.kind == "gkat" && graph_model.mask != "gkat");
  return own_mask ? graph_model.kind + "+" + graph_model.mask : graph_model.kind;
}

}  // namespace topomask
