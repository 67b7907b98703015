#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <sstream>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "mask_arguments.h"
#include "output.h"
#include "topomask/planner.h"

namespace topomask::apps {
namespace {

struct ExplainCommand {
  GraphArguments graph;
  MaskArguments mask;
  Workload workload{.slices = 1, .features = 64, .value_dim = 64};
};

Json as_json(const Plan& plan) {
  Json routes = Json::array();
  for (const RouteEstimate& estimate : plan.estimates) {
    Json row{{"route", to_string(estimate.route)}, {"available", estimate.available}};
    if (estimate.available) {
      row["milliseconds"] = estimate.seconds * 1e3;
      row["mebibytes"] = estimate.bytes / (1 << 20);
    }
    row["reason"] = estimate.reason;
    routes.push_back(row);
  }
  return {{"mask", plan.mask}, {"route", to_string(plan.route)}, {"reason", plan.reason}, {"routes", routes}};
}

int run(const ExplainCommand& arguments, bool json, Activity& activity) {
  const NamedGraph graph = arguments.graph.make(activity);
  if (arguments.mask.makes_walks()) {
    announce_walks(activity, graph.graph.num_nodes(), arguments.mask.walks().make());
  }
  activity.stage("making the mask");
  const NamedMask named = arguments.mask.make(graph);
  Workload workload = arguments.workload;
  workload.nodes = named.mask->size();
  workload.threads = at::get_num_threads();
  activity.stage("estimating the routes");
  const Plan plan = plan_attention(*named.mask, workload);
  std::ostringstream text;
  text << plan;
  activity.finish();
  print(json ? as_json(plan) : Json(text.str()), json);
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<ExplainCommand>();
  CLI::App* command = add_command(
      app, context, "explain", "The routes that attention could take with a mask, their cost, and the choice",
      "  topomask explain grid:128x128 --kind series --f 1,0.5,0.25\n"
      "  topomask explain grid:32x32 --kind grf --walkers 20 --slices 32 --json",
      [arguments, &context](Activity& activity) { return run(*arguments, context.json, activity); });
  arguments->graph.add_to(*command);
  arguments->mask.add_to(*command, "series");
  Workload& workload = arguments->workload;
  command->add_option("--slices", workload.slices, "batch times heads")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 30));
  command->add_option("--features", workload.features, "m, features of a query")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 30));
  command->add_option("--value-dim", workload.value_dim, "d, dimensions of a value")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 30));
}

}  // namespace topomask::apps
