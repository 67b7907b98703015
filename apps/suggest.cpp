#include <ATen/ATen.h>

#include <limits>
#include <sstream>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "mask_arguments.h"
#include "output.h"
#include "theory/names.h"
#include "topomask/theory.h"
#include "walks/names.h"

namespace topomask::apps {
namespace {

struct SuggestCommand {
  GraphArguments graph;
  FunctionArguments function;
  double tolerance = 0.1;
  SuggestOptions options;
};

/// What will be done, where it is much: the exact series on some columns, and some dozens of tables of walks.
void announce_trials(const Graph& graph, const at::Tensor& f, const SuggestOptions& options, Activity& activity) {
  constexpr double kMuch = 2e10;
  const auto terms = static_cast<double>(2 * f.size(0) - 1), columns = static_cast<double>(options.nodes);
  const double work = 2 * terms * static_cast<double>(graph.num_entries()) * columns;
  if (work < kMuch) return;
  char text[64];
  std::snprintf(text, sizeof(text), "about %.2g multiply-adds for the exact rows, then", work);
  activity.announce(std::string(text) + " a few dozen tables of walks from " + std::to_string(graph.num_nodes()) +
                    " nodes");
}

Json choice(const Suggestion::Choice& of) {
  return {{"error", of.error}, {"milliseconds", of.seconds * 1e3}};
}

Json as_json(const Suggestion& found) {
  Json result{{"tolerance", found.tolerance},
              {"use", found.use_exact ? "exact" : "walks"},
              {"reason", found.reason},
              {"exact", choice(found.exact)}};
  result["exact"]["terms"] = found.terms;
  if (found.walks) {
    result["walks"] = choice(found.sampled);
    result["walks"]["estimator"] = kEstimatorNames[found.estimator];
    result["walks"]["coupling"] = kCouplingNames[found.walks->coupling];
    result["walks"]["walkers"] = found.walks->walkers;
    result["walks"]["exact_hops"] = found.walks->exact_hops;
    result["walks"]["halting_probability"] = found.walks->halting_probability;
    result["walks"]["max_hops"] = found.walks->max_hops;
  }
  return result;
}

}  // namespace

void add_suggest(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<SuggestCommand>();
  CLI::App* command =
      add_command(app, context, "suggest", "How to get a mask to a tolerance: exact series or random walks, and which",
                  "  topomask suggest grid:64x64 --tolerance 0.05\n"
                  "  topomask suggest random:2000:0.05 --f diffusion:1 --terms 10 --tolerance 0.1 --json",
                  [arguments, &context](Activity& activity) {
                    const NamedGraph named = arguments->graph.make(activity);
                    const at::Tensor f = arguments->function.make().to(named.graph.weights().scalar_type());
                    announce_trials(named.graph, f, arguments->options, activity);
                    activity.stage("trying walks");
                    const Suggestion found = suggest(named.graph, f, arguments->tolerance, arguments->options);
                    activity.finish();
                    std::ostringstream text;
                    text << found;
                    print(context.json ? as_json(found) : Json(text.str()), context.json);
                    return 0;
                  });
  arguments->graph.add_to(*command);
  arguments->function.add_to(*command);
  command->add_option("--tolerance", arguments->tolerance, "relative Frobenius error")
      ->capture_default_str()
      ->check(between_zero_and_one());
  command->add_option("--max-walkers", arguments->options.max_walkers, "try no more")
      ->capture_default_str()
      ->check(whole_number(4, std::numeric_limits<int32_t>::max()));
  command->add_option("--seed", arguments->options.seed, "of the walks that are tried")
      ->capture_default_str()
      ->check(whole_number(0));
}

}  // namespace topomask::apps
