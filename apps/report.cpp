#include <filesystem>
#include <iostream>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "core/out_of_memory.h"
#include "io/output_file.h"
#include "output.h"
#include "provenance.h"
#include "report/sections.h"
#include "run_folder.h"
#include "topomask/version.h"

namespace topomask::apps {

namespace {

/// What `open` gives for the first run of each group; `problems` says why others cannot be opened.
template <class Opened, class Open>
std::vector<Opened> open_groups(const RunCollection& runs, std::vector<std::string>& problems, const Open& open) {
  std::vector<Opened> opened;
  for (const RunGroup& group : runs.groups) {
    try {
      opened.push_back({group.label, open(group.runs[0].folder)});
    } catch (const c10::Error& error) {
      problems.push_back(group.label + ": " + error_text(error));
    }
  }
  return opened;
}

}  // namespace

std::vector<GroupModel> load_models(const RunCollection& runs, std::vector<std::string>& problems) {
  return open_groups<GroupModel>(runs, problems, [](const std::string& folder) { return open_run(folder); });
}

std::vector<GroupTask> load_tasks(const RunCollection& runs, std::vector<std::string>& problems) {
  return open_groups<GroupTask>(runs, problems,
                                [](const std::string& folder) { return open_task(folder, "cpu", [](RunConfig&) {}); });
}

namespace {

struct ReportCommand {
  std::vector<std::string> runs;
  std::string out = "report.html", title = "topomask: comparison of attention variants";
  int64_t token = -1, examples = 8;
  bool pictures = true;
};

/// Data and model in a few words.
std::string subject(const RunConfig& config) {
  if (config.task == "graphs") {
    const GraphDataOptions& data = config.graph_data;
    const std::string from = data.path.empty() ? data.kind : std::filesystem::path(data.path).stem().string();
    return escape(from) + format("; width %ld, %ld layers, %ld heads", static_cast<long>(config.graph_model.width),
                                 static_cast<long>(config.graph_model.layers),
                                 static_cast<long>(config.graph_model.heads));
  }
  if (config.task == "points") {
    const PointModelOptions& model = config.point_model;
    return escape(std::filesystem::path(config.episode_data.path).filename().string()) +
           format("; %ld particles, width %ld, %ld blocks", static_cast<long>(model.particles),
                  static_cast<long>(model.width), static_cast<long>(model.blocks));
  }
  if (config.task == "video") {
    const ViViTOptions& model = config.video_model;
    return escape(config.video_data.kind) +
           format("; %ld frames, %ld × %ld × %ld tubelets, %s attention, width %ld, %ld layers, %ld heads",
                  static_cast<long>(model.frames), static_cast<long>(model.steps()), static_cast<long>(model.grid()),
                  static_cast<long>(model.grid()), model.attention.c_str(), static_cast<long>(model.width),
                  static_cast<long>(model.depth), static_cast<long>(model.heads));
  }
  const bool in_folder = config.data.kind == "idx";
  const auto grid = static_cast<long>(config.model.grid());
  return escape(in_folder ? std::filesystem::path(config.data.path).filename().string() : config.data.kind) +
         format("; %ld × %ld = %ld patches%s, width %ld, %ld layers, %ld heads", grid, grid, grid * grid,
                config.model.cls_token ? " and a CLS token" : "", static_cast<long>(config.model.width),
                static_cast<long>(config.model.depth), static_cast<long>(config.model.heads));
}

std::string lead(const RunCollection& runs) {
  size_t count = 0;
  for (const RunGroup& group : runs.groups) count += group.runs.size();
  return format("<p class=\"soft\">%zu run%s of %zu variant%s on %s. %s, topomask %s.</p>\n", count,
                count == 1 ? "" : "s", runs.groups.size(), runs.groups.size() == 1 ? "" : "s",
                subject(runs.groups[0].config()).c_str(), date_now().c_str(), TOPOMASK_VERSION);
}

/// What needs the models: masks, functions of hops, attention.
std::vector<Section> pictures(const ReportCommand& arguments, const RunCollection& runs,
                              std::vector<std::string>& problems) {
  std::vector<Modulation> learned;
  if (runs.groups[0].config().task == "points") {
    return {strips_section(load_tasks(runs, problems), runs.split, arguments.examples)};
  }
  if (runs.groups[0].config().task == "video") {
    const std::vector<GroupTask> tasks = load_tasks(runs, problems);
    for (const GroupTask& group : tasks) {
      Task& task = *group.loaded.task;
      learned.push_back({group.label, task.modulation(), task.config().video_model.decay});
    }
    return {confusion_section(tasks, runs.split), modulation_section(learned)};
  }
  if (runs.groups[0].config().task == "graphs") {
    const std::vector<GroupTask> tasks = load_tasks(runs, problems);
    for (const GroupTask& group : tasks) {
      Task& task = *group.loaded.task;
      const GraphModelOptions& model = task.config().graph_model;
      learned.push_back({group.label, task.modulation(), model.decay, model.mask == "shortest_path"});
    }
    return {confusion_section(tasks, runs.split), modulation_section(learned),
            graphs_section(tasks, runs.split, arguments.examples)};
  }
  const std::vector<GroupModel> models = load_models(runs, problems);
  for (const GroupModel& model : models) {
    learned.push_back({model.label, model.loaded.model->modulation(), model.loaded.config.model.decay});
  }
  return {masks_section(models, arguments.token), modulation_section(learned),
          attention_section(models, arguments.examples)};
}

Json table(const RunCollection& runs) {
  Json rows = Json::array();
  for (const RunGroup& group : runs.groups) {
    const Comparison found = compare(group.results(), runs.groups[0].results());
    const std::string claim = claim_text(found);
    rows.push_back({{"variant", group.label},
                    {"seeds", group.seeds()},
                    {runs.split + " " + runs.score, accuracy_text(group.accuracy())},
                    {"against the best", &group == &runs.groups[0] ? ""
                                                                   : format("%+.2f%s%s", 100 * found.difference,
                                                                            claim.empty() ? "" : ", ", claim.c_str())},
                    {"ms a step", format("%.1f", group.mean(&RunRecord::step_ms))},
                    {"memory, MB", format("%.0f", group.mean(&RunRecord::memory_mb))}});
  }
  return rows;
}

Json as_json(const RunCollection& runs, const std::string& out) {
  Json groups = Json::array();
  for (const RunGroup& group : runs.groups) {
    const Spread accuracy = group.accuracy();
    groups.push_back({{"variant", group.config().variant()},
                      {"label", group.label},
                      {"seeds", group.runs.size()},
                      {"accuracy", accuracy.mean},
                      {"deviation", accuracy.deviation},
                      {"accuracies", group.accuracies()},
                      {"step_ms", group.mean(&RunRecord::step_ms)},
                      {"memory_mb", group.mean(&RunRecord::memory_mb)}});
  }
  return {{"split", runs.split}, {"groups", groups}, {"noise", noise_sentences(runs)}, {"report", out}};
}

int run(const ReportCommand& arguments, bool json, Activity& activity) {
  check_folder_of("report", "--out", arguments.out);
  activity.stage("reading the runs");
  const RunCollection runs = read_runs(arguments.runs);
  std::vector<Section> sections{accuracy_section(runs), curves_section(runs), cost_section(runs)};
  if (runs.groups[0].config().task == "points") sections.insert(sections.begin() + 1, rollouts_section(runs));
  std::vector<std::string> problems;
  if (arguments.pictures) {
    activity.stage("drawing masks and attention");
    for (Section& section : pictures(arguments, runs, problems)) sections.push_back(std::move(section));
  }
  sections.push_back(setup_section(runs));
  for (const std::string& problem : problems) activity.announce("no pictures of " + problem);
  io::OutputFile file({"report", arguments.out});
  file.put(page(arguments.title, lead(runs), sections));
  file.commit();
  activity.finish();
  if (json) {
    print(as_json(runs, arguments.out), true);
    return 0;
  }
  print(table(runs), false);
  std::cout << "\n";
  for (const std::string& sentence : noise_sentences(runs)) std::cout << sentence << "\n";
  std::cerr << "\nreport: " << arguments.out << "\n";
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<ReportCommand>();
  CLI::App* command = add_command(
      app, context, "report", "One HTML page about runs: accuracy over seeds, curves, cost, masks and attention",
      "  topomask report runs/grf-0 runs/grf-1 runs/linear-0 --out report.html\n"
      "  topomask report runs --token 0 --examples 12 --json        every run in the folder\n"
      "Runs that differ only by seed are grouped; claims need two seeds or more of each variant.",
      [arguments, &context](Activity& activity) { return run(*arguments, context.json, activity); });
  command->add_option("runs", arguments->runs, "folders of runs, or folders of such folders")->required();
  command->add_option("--out", arguments->out, "the page to write")->capture_default_str();
  command->add_option("--title", arguments->title, "its heading")->capture_default_str();
  command->add_option("--token", arguments->token, "patch whose mask rows are drawn; -1: the middle one")
      ->capture_default_str()
      ->check(whole_number(-1));
  command->add_option("--examples", arguments->examples, "images or graphs to show attention on; episodes, at most 3")
      ->capture_default_str()
      ->check(whole_number(1, 100));
  command->add_flag("!--no-pictures", arguments->pictures,
                    "leave out what needs the models: masks, functions, attention");
}

}  // namespace topomask::apps
