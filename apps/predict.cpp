#include <ATen/ATen.h>

#include <cmath>
#include <filesystem>

#include "activity.h"
#include "argument_checks.h"
#include "attention_picture.h"
#include "command.h"
#include "config_arguments.h"
#include "core/out_of_memory.h"
#include "data/names.h"
#include "figure.h"
#include "film_strip.h"
#include "graph_picture.h"
#include "io/output_file.h"
#include "output.h"
#include "run_folder.h"
#include "topomask/data/image.h"
#include "topomask/data/prepare.h"
#include "topomask/tasks/graphs.h"
#include "topomask/tasks/points.h"
#include "topomask/tasks/video.h"

namespace topomask::apps {
namespace {

struct PredictCommand {
  std::string run, picture, device = "cpu", split = "test";
  std::vector<std::string> items;
  ConfigArguments changes;
  int64_t top = 5;
  bool invert = false;
};

/// The image as the model takes it: one size, one or three channels.
at::Tensor read_for(const ViTOptions& model, const std::string& path, bool invert) {
  at::Tensor image = resize_image(read_image(path, model.image_size), model.image_size);
  if (model.channels == 1) {
    const at::Tensor weights = at::tensor({0.299, 0.587, 0.114}).view({3, 1, 1});  // brightness as people see it
    image = (image.to(at::kDouble) * weights).sum(0, true).round().to(at::kByte);
  }
  return invert ? 255 - image : image;
}

/// Names of the classes, from the data set the model was trained on; numbers if it is not available.
std::vector<std::string> class_names(const RunConfig& config, Activity& activity) {
  try {
    return open_dataset(config.data, Split::test)->classes();
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) throw;
    activity.announce("the data set of the run was not found (" + config.data.kind + " in '" + config.data.path +
                      "'), so classes have numbers; --data.path says where it is");
    std::vector<std::string> names;
    for (int64_t c = 0; c < config.model.classes; ++c) names.push_back(std::to_string(c));
    return names;
  }
}

/// A row of panels for each image: itself, then what each layer looked at.
void draw(ViT& model, const std::string& variant, const std::vector<at::Tensor>& images, const at::Tensor& prepared,
          const std::vector<std::string>& guesses, const std::string& path) {
  const at::Tensor maps = attention_maps(model, prepared);
  std::vector<Panel> shown;
  for (size_t i = 0; i < images.size(); ++i) {
    shown.push_back({as_colour(images[i]), guesses[i]});
    for (int64_t layer = 0; layer < maps.size(0); ++layer) {
      shown.push_back({overlay(images[i], maps[layer][static_cast<int64_t>(i)]), "layer " + std::to_string(layer + 1)});
    }
  }
  write_png(path, draw_figure(shown, {.title = "Where each layer of " + variant + " looked",
                                      .notes = {"Attention of the token that classifies, mean over heads; each map is",
                                                "scaled to its own largest value: yellow 1, dark 0."},
                                      .across = maps.size(0) + 1,
                                      .zoom = std::max<int64_t>(1, 160 / images[0].size(1))}));
}

Json predict_images(const PredictCommand& arguments, Activity& activity) {
  const at::NoGradGuard no_grad;
  LoadedModel loaded = open_run(arguments.run, arguments.device);
  arguments.changes.apply_to(loaded.config);
  const ViTOptions& model = loaded.config.model;
  const std::vector<std::string> names = class_names(loaded.config, activity);
  std::vector<at::Tensor> images;
  for (const std::string& path : arguments.items) images.push_back(read_for(model, path, arguments.invert));
  const ImageBatch batch{at::stack(images), at::zeros({std::ssize(images)}, at::kLong)};
  const auto normalisation =
      augment_options(loaded.config.data, *memory_dataset("", batch.images, batch.labels, names));
  const at::Tensor prepared = prepare(batch, without_mixing(normalisation), at::Device(arguments.device), 0, 0).images;
  const at::Tensor chances = loaded.model->forward(prepared).softmax(-1).to(at::kCPU);
  const auto [best, places] = chances.topk(std::min<int64_t>(arguments.top, chances.size(-1)));
  Json result = Json::array();
  for (int64_t i = 0; i < best.size(0); ++i) {
    for (int64_t rank = 0; rank < best.size(1); ++rank) {
      result.push_back({{"image", arguments.items[static_cast<size_t>(i)]},
                        {"class", names.at(static_cast<size_t>(places[i][rank].item<int64_t>()))},
                        {"probability", best[i][rank].item<double>()}});
    }
  }
  if (!arguments.picture.empty()) {
    std::vector<std::string> guesses;
    for (int64_t i = 0; i < best.size(0); ++i) {
      guesses.push_back(names.at(static_cast<size_t>(places[i][0].item<int64_t>())));
    }
    draw(*loaded.model, model.variant, images, prepared, guesses, arguments.picture);
    activity.announce("where each layer looked: " + arguments.picture);
  }
  return result;
}

/// Places in a split: whole numbers.
std::vector<int64_t> places_of(const PredictCommand& arguments) {
  if (arguments.invert) throw UsageError("predict: --invert is for images");
  std::vector<int64_t> places;
  for (const std::string& item : arguments.items) {
    double place = 0;
    if (!parse_number(item, place) || place < 0 || place != std::floor(place) || place > 1e15) {
      throw UsageError(
          "predict: a run of graphs, points or video takes places in its --split, whole numbers from 0, got '" + item +
          "'");
    }
    places.push_back(static_cast<int64_t>(place));
  }
  return places;
}

LoadedTask opened(const PredictCommand& arguments) {
  return open_task(arguments.run, arguments.device, [&](RunConfig& config) { arguments.changes.apply_to(config); });
}

/// A place beyond the end of the split is wrong usage.
void check_places(const std::vector<int64_t>& places, Task& task, const std::string& split) {
  const int64_t size = task.size(split);
  for (const int64_t place : places) {
    if (place < size) continue;
    throw UsageError(c10::str("predict: a place must be below ", size, ", the ", task.items(), " of the ", split,
                              " split, got ", place));
  }
}

/// The likeliest `top` classes of the item at `place`, a row each.
void add_classes(Json& rows, int64_t top, const std::vector<std::string>& names, int64_t place,
                 const at::Tensor& probabilities, int64_t label) {
  const auto [best, classes] = probabilities.topk(std::min<int64_t>(top, std::ssize(names)));
  for (int64_t rank = 0; rank < best.size(0); ++rank) {
    rows.push_back({{"place", place},
                    {"class", names.at(static_cast<size_t>(classes[rank].item<int64_t>()))},
                    {"probability", best[rank].item<double>()},
                    {"true class", label < 0 ? "none" : names.at(static_cast<size_t>(label))}});
  }
}

/// The likeliest class of each word of a sentence, and of the nodes of any graph that has several labels.
void add_nodes(Json& rows, const std::vector<std::string>& names, int64_t place, const GraphView& view) {
  const auto [best, classes] = view.guesses.max(1);
  for (int64_t i = 0; i < view.labelled.size(0); ++i) {
    rows.push_back({{"place", place},
                    {"node", view.labelled[i].item<int64_t>()},
                    {"class", names.at(static_cast<size_t>(classes[i].item<int64_t>()))},
                    {"probability", best[i].item<double>()},
                    {"true class", names.at(static_cast<size_t>(view.labels[i].item<int64_t>()))}});
  }
}

Json predict_graphs(const PredictCommand& arguments, Activity& activity) {
  const std::vector<int64_t> places = places_of(arguments);
  const LoadedTask loaded = opened(arguments);
  check_places(places, *loaded.task, arguments.split);
  const std::vector<std::string> names = loaded.task->classes();
  Json result = Json::array();
  std::vector<std::string> drawings;
  for (const int64_t place : places) {
    const GraphView view = view_graph(*loaded.task, arguments.split, place);
    if (view.labelled.size(0) > 1) {
      add_nodes(result, names, place, view);
    } else {
      add_classes(result, arguments.top, names, place, view.probabilities, view.label);
    }
    if (arguments.picture.empty()) continue;
    const at::Tensor layout = spring_layout(view.graph);
    drawings.push_back(graph_picture(view.graph, layout, view.influence, {.title = "influence of nodes"}));
    if (view.attention.defined()) {
      drawings.push_back(graph_picture(view.graph, layout, view.attention,
                                       {.title = "attention of the ringed node", .marked = view.node}));
    }
  }
  if (!arguments.picture.empty()) {
    io::OutputFile file({"predict", arguments.picture});
    file.put(side_by_side(drawings, std::ssize(drawings) / std::ssize(places)));
    file.commit();
    activity.announce("each graph by the influence of its nodes, and by what the ringed one attends to: " +
                      arguments.picture);
  }
  return result;
}

/// The SSIM of each step, and film strips, the episodes below each other.
Json predict_points(const PredictCommand& arguments, Activity& activity) {
  const std::vector<int64_t> places = places_of(arguments);
  const LoadedTask loaded = opened(arguments);
  check_places(places, *loaded.task, arguments.split);
  Json result = Json::array();
  std::vector<at::Tensor> strips;
  for (const int64_t place : places) {
    const RolloutView view =
        view_rollout(*loaded.task, arguments.split, place, loaded.task->config().episode_data.evaluation_steps);
    for (size_t s = 0; s < view.ssim.size(); ++s) {
      result.push_back({{"place", place}, {"kind", view.kind}, {"step", s + 1}, {"ssim", view.ssim[s]}});
    }
    for (int64_t c = 0; c < view.truth.size(1); ++c) {
      strips.push_back(film_strip(view.truth.select(1, c), view.prediction.select(1, c)));
    }
  }
  if (!arguments.picture.empty()) {
    write_png(arguments.picture, below_each_other(strips));
    activity.announce("truth, prediction and difference of each step, for each episode and camera: " +
                      arguments.picture);
  }
  return result;
}

/// Classes of clips, and their frames side by side, the clips below each other.
Json predict_clips(const PredictCommand& arguments, Activity& activity) {
  const std::vector<int64_t> places = places_of(arguments);
  const LoadedTask loaded = opened(arguments);
  check_places(places, *loaded.task, arguments.split);
  const std::vector<std::string> names = loaded.task->classes();
  Json result = Json::array();
  std::vector<at::Tensor> strips;
  for (const int64_t place : places) {
    const ClipView view = view_clip(*loaded.task, arguments.split, place);
    add_classes(result, arguments.top, names, place, view.probabilities, view.label);
    std::vector<at::Tensor> frames;
    const int64_t channels = view.clip.size(1), layers = channels % 3 == 0 ? channels / 3 : channels;
    for (const at::Tensor& frame : view.clip.unbind(0)) {
      // Voxels have a channel for each layer of depth: the brightest is seen.
      frames.push_back(as_colour(frame.unflatten(0, {channels / layers, layers}).amax(1)));
    }
    strips.push_back(at::cat(frames, 2));
  }
  if (!arguments.picture.empty()) {
    write_png(arguments.picture, at::cat(strips, 1));
    activity.announce("the frames of each clip: " + arguments.picture);
  }
  return result;
}

Json predict(const PredictCommand& arguments, Activity& activity) {
  const std::string task = run_config(arguments.run).task;
  if (task == "points") return predict_points(arguments, activity);
  if (task == "video") return predict_clips(arguments, activity);
  return task == "graphs" ? predict_graphs(arguments, activity) : predict_images(arguments, activity);
}

int run(const PredictCommand& arguments, bool json, Activity& activity) {
  check_device_name(arguments.device);
  activity.stage("predicting with " + arguments.run);
  const Json result = predict(arguments, activity);
  activity.finish();
  print(result, json);
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<PredictCommand>();
  CLI::App* command =
      add_command(app, context, "predict", "Classify or predict with a trained model, and draw where it looked",
                  "  topomask predict runs/grf boot.jpg --invert      (Fashion-MNIST is bright on dark)\n"
                  "  topomask predict runs/grf a.png b.jpg --top 3 --picture attention.png --json\n"
                  "  topomask predict runs/proteins 0 17 --split test --picture graphs.svg\n"
                  "  topomask predict runs/robot 0 1 --split test --picture strips.png",
                  [arguments, &context](Activity& activity) { return run(*arguments, context.json, activity); });
  command->add_option("run", arguments->run, "folder of a run, or a checkpoint file")->required();
  command
      ->add_option("images", arguments->items,
                   "JPEG or PNG files; of graphs, episodes and clips their places in the split")
      ->required();
  command->add_option("--split", arguments->split, "where places count: train, validation or test")
      ->capture_default_str()
      ->check(one_of(kSplitNames.all()));
  command->add_option("--top", arguments->top, "classes to name")->capture_default_str()->check(whole_number(1));
  command->add_option("--picture", arguments->picture,
                      "PNG of each image and where each layer looked; SVG of graphs; PNG of film strips or frames");
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_flag("--invert", arguments->invert, "bright becomes dark: for models of bright things on dark ground");
  arguments->changes.add_to(*command);
}

}  // namespace topomask::apps
