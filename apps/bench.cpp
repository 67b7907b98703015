#include <ATen/ATen.h>

#include <chrono>
#include <functional>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "mask_arguments.h"
#include "output.h"
#include "topomask/attention.h"

namespace topomask::apps {
namespace {

struct BenchCommand {
  GraphArguments graph;
  MaskArguments mask;
  int64_t heads = 1, dimension = 64, repetitions = 9;
  double budget_gib = 4;
};

struct Timed {
  std::string name;
  std::function<at::Tensor()> call;
};

double median_ms(const std::function<at::Tensor()>& call, int64_t repetitions) {
  std::vector<double> times;
  for (int64_t i = 0; i <= repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (i > 0 || ms > 2000) times.push_back(ms);  // the first call warms up, unless there will be no other
    if (ms > 2000) break;
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// What torch alone offers for the same answer, where N × N matrices fit the budget.
std::vector<Timed> torch_baselines(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Mask& mask,
                                   double budget) {
  std::vector<Timed> baselines;
  const double nodes = static_cast<double>(mask.size()), heads = static_cast<double>(q.size(0));
  if (nodes * nodes * heads * 4 * 3 <= budget) {
    const at::Tensor dense = mask.dense().detach();
    baselines.push_back({"torch, N x N matrices", [=] {
                           const at::Tensor weights = at::matmul(q, k.mT()) * dense;
                           return at::matmul(weights, v) / weights.sum(-1, true).clamp_min(1e-6);
                         }});
    const at::Tensor bias = dense.clamp_min(1e-30).log().expand({q.size(0), -1, -1}).unsqueeze(0);
    baselines.push_back(
        {"torch, softmax with the mask (SDPA)",
         [=] { return at::scaled_dot_product_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), bias); }});
  }
  baselines.push_back({"torch, softmax without a mask (SDPA)", [=] {
                         return at::scaled_dot_product_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0));
                       }});
  baselines.push_back({"torch, linear without a mask",
                       [=] { return at::matmul(q, at::matmul(k.mT(), v)) / at::matmul(q, k.sum(-2, true).mT()); }});
  return baselines;
}

/// What the slowest route will take, where that is long.
void announce_timings(size_t rows, const Plan& plan, int64_t repetitions) {
  constexpr double kLong = 2;
  double seconds = 0;
  for (const RouteEstimate& estimate : plan.estimates) {
    if (estimate.available) seconds = std::max(seconds, estimate.seconds);
  }
  if (seconds * static_cast<double>(repetitions + 1) < kLong) return;
  char text[96];
  std::snprintf(text, sizeof(text), "%zu things to time; the slowest route of topomask takes about %.2g s a call", rows,
                seconds);
  announce("bench", text);
}

int run(const BenchCommand& arguments, bool json) {
  const at::NoGradGuard no_grad;
  const NamedGraph graph = arguments.graph.make();
  if (arguments.mask.makes_walks()) {
    announce_walks("bench", graph.graph.num_nodes(), arguments.mask.walks().make());
  }
  Activity activity("bench");
  activity.stage("making the mask");
  const NamedMask named = arguments.mask.make(graph);
  const double budget = arguments.budget_gib * (int64_t{1} << 30);
  const auto random = [&] { return at::rand({arguments.heads, named.mask->size(), arguments.dimension}) + 0.1; };
  const at::Tensor q = random(), k = random(), v = random();
  AttentionOptions options{.features = FeatureMap::identity()};
  const Plan plan = explain(q, k, v, named.mask, options);

  std::vector<Timed> rows;
  for (const RouteEstimate& estimate : plan.estimates) {
    if (!estimate.available || estimate.bytes > budget) continue;
    options.route = estimate.route;
    const std::string chosen = estimate.route == plan.route ? " (chosen)" : "";
    rows.push_back({std::string("topomask, ") + to_string(estimate.route) + chosen,
                    [&q, &k, &v, &named, options] { return attention(q, k, v, named.mask, options); }});
  }
  activity.stage("preparing what torch needs");
  for (Timed& baseline : torch_baselines(q, k, v, *named.mask, budget)) rows.push_back(std::move(baseline));
  Json table = Json::array();
  double best = 0;
  announce_timings(rows.size(), plan, arguments.repetitions);
  for (const Timed& row : rows) {
    activity.stage("timing " + row.name + " (" + std::to_string(table.size() + 1) + " of " +
                   std::to_string(rows.size()) + ")");
    const double ms = median_ms(row.call, arguments.repetitions);
    if (row.name.ends_with("(chosen)")) best = ms;
    table.push_back({{"what", row.name}, {"milliseconds", ms}});
  }
  activity.finish();
  for (Json& row : table) row["against_chosen"] = row["milliseconds"].get<double>() / best;
  print({{"mask", named.mask->name()},
         {"nodes", named.mask->size()},
         {"heads", arguments.heads},
         {"dimension", arguments.dimension},
         {"threads", at::get_num_threads()},
         {"forward pass, float32, median", table}},
        json);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<BenchCommand>();
  CLI::App* command =
      add_command(app, context, "bench", "Time the routes of attention on a graph, and the alternatives in torch",
                  "  topomask bench grid:64x64 --kind series --f 1,0.5,0.25,0.125\n"
                  "  topomask bench grid:32x32 --kind grf --walkers 4 --heads 3 --json",
                  [arguments, &context] { return run(*arguments, context.json); });
  arguments->graph.add_to(*command);
  arguments->mask.add_to(*command, "series");
  command->add_option("--heads", arguments->heads, "heads")->capture_default_str()->check(whole_number(1, 1 << 20));
  command->add_option("--dimension", arguments->dimension, "m = d")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  command->add_option("--repetitions", arguments->repetitions, "timings to take the median of")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  command->add_option("--budget", arguments->budget_gib, "GiB; what needs more is left out")
      ->capture_default_str()
      ->check(positive_number());
}

}  // namespace topomask::apps
