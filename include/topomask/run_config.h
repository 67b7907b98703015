#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topomask/data/episode_options.h"
#include "topomask/data/graph_options.h"
#include "topomask/data/options.h"
#include "topomask/data/video_options.h"
#include "topomask/export.h"
#include "topomask/nn/graph_options.h"
#include "topomask/nn/options.h"
#include "topomask/nn/point_options.h"
#include "topomask/nn/vivit_options.h"

namespace TOPOMASK_API topomask {

/// How a model is trained. Steps are steps of the optimiser.
struct TrainOptions {
  uint64_t seed = 0;
  std::string device = "cpu";
  std::string precision = "float32";
  int64_t epochs = 30;
  int64_t steps = 0;
  int64_t batch_size = 128;
  int64_t accumulation = 1;
  std::string optimiser = "adamw";
  double learning_rate = 1e-3;
  double final_learning_rate = 1e-5;
  int64_t warmup_steps = 0;
  int64_t constant_steps = 0;
  std::string schedule = "cosine";
  double mask_learning_rate = 1;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.05;
  double clip_norm = 1;
  double label_smoothing = 0.1;
  double ema_decay = 0;
  std::string select = "last";
  int64_t patience = 0;
  std::string pretrained;
  int64_t log_every = 50;
  int64_t evaluate_every = 0;
  int64_t checkpoint_every = 500;
  int64_t evaluation_batch = 500;

  /// Refuses a field that is out of its range, by its name: betas, ema_decay in [0, 1), label_smoothing in [0, 1],
  /// epsilon > 0, rates, decays and clip_norm >= 0, all of them finite; batch_size, accumulation and evaluation_batch
  /// >= 1, other counts >= 0; names among those known. `origin` starts the text. train, Optimiser and configuration
  /// files call it.
  void check(const std::string& origin = "train: ") const;
};

std::vector<std::string> task_names();

/// Everything that decides a run. A task has data and a model of its own; those of other tasks are ignored.
struct RunConfig {
  std::string name = "run";
  std::string task = "images";
  DataOptions data;  ///< of the task images
  ViTOptions model;
  GraphDataOptions graph_data;  ///< of the task graphs; "data" and "model" in files too
  GraphModelOptions graph_model;
  EpisodeDataOptions episode_data;  ///< of the task points; "data" and "model" in files too
  PointModelOptions point_model;
  VideoOptions video_data;  ///< of the task video; "data" and "model" in files too
  ViViTOptions video_model;
  TrainOptions train;

  /// The checks of what the task uses, with the keys of a configuration file: "ORIGIN train.beta1 must be …".
  void check(const std::string& origin = "train: ") const;
  std::string variant() const;  ///< what tables call the model: grf, gkat, transformer+grf
};

/// Names and explains every field: files, command lines and help come from here.
template <class Visitor>
void visit(Visitor& v, TrainOptions& o) {
  v("seed", o.seed, "of the first weights, the walks, the order of the data, augmentation and dropout");
  v("device", o.device, "cpu, cuda or cuda:N");
  v("precision", o.precision, "float32, or bfloat16 by autocast");
  v("epochs", o.epochs, "passes over the training data");
  v("steps", o.steps, "steps of the optimiser; 0: as many as the epochs take");
  v("batch_size", o.batch_size, "images, graphs or clips of a step");
  v("accumulation", o.accumulation, "micro-batches per optimiser step (gradient accumulation)");
  v("optimiser", o.optimiser, "adamw, or adam (weight decay as part of the gradient)");
  v("learning_rate", o.learning_rate, "after warm-up");
  v("final_learning_rate", o.final_learning_rate, "at the end of the schedule");
  v("warmup_steps", o.warmup_steps, "the learning rate rises linearly for this many steps");
  v("constant_steps", o.constant_steps, "then it stays constant for this many steps, and falls as schedule says");
  v("schedule", o.schedule, "cosine: falls to the last step; step: is final_learning_rate from then on");
  v("mask_learning_rate", o.mask_learning_rate, "multiplies the learning rate of a mask's parameters");
  v("beta1", o.beta1, "decay of the optimiser's first moment");
  v("beta2", o.beta2, "decay of the optimiser's second moment");
  v("epsilon", o.epsilon, "keeps the optimiser from dividing by zero");
  v("weight_decay", o.weight_decay, "of matrices; not of biases, norms, positions or masks");
  v("clip_norm", o.clip_norm, "gradients longer than this are shortened to it; 0: never");
  v("label_smoothing", o.label_smoothing, "part of a label that is spread over all classes");
  v("ema_decay", o.ema_decay, "evaluate a moving average of the weights with this decay; 0: the weights");
  v("select", o.select, "the weights to judge at the end: last, or best (highest accuracy on validation data)");
  v("patience", o.patience, "with best: evaluations without a better one after which training ends; 0: never");
  v("pretrained", o.pretrained, "checkpoint with initial weights; the head is reinitialised if the classes differ");
  v("log_every", o.log_every, "steps between lines of metrics; 0: only at the end");
  v("evaluate_every", o.evaluate_every, "steps between evaluations; 0: once an epoch");
  v("checkpoint_every", o.checkpoint_every, "steps between checkpoints; 0: only at the end");
  v("evaluation_batch", o.evaluation_batch, "images, graphs or clips of a batch in evaluation");
}

template <class Visitor>
void visit(Visitor& v, RunConfig& o) {
  v("name", o.name, "what the run is called in tables");
  v("task", o.task,
    "images, graphs (classification of whole graphs, or of nodes where the data labels those), points (dynamics of "
    "point clouds), or video (classification of clips)");
  if (o.task == "points") {
    v("data", o.episode_data, "where episodes come from");
    v("model", o.point_model, "the model");
  } else if (o.task == "video") {
    v("data", o.video_data, "where clips come from");
    v("model", o.video_model, "the transformer");
  } else if (o.task == "graphs") {
    v("data", o.graph_data, "where graphs come from");
    v("model", o.graph_model, "the model");
  } else {
    v("data", o.data, "where images come from");
    v("model", o.model, "the transformer");
  }
  v("train", o.train, "how it is trained");
}

}  // namespace topomask
