#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <functional>
#include <optional>

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
  double budget_gib = 4, longest = 30;
};

struct Timed {
  std::string name;
  std::function<at::Tensor()> call;
  double seconds = 0;  ///< of a call, estimated
};

double seconds_of(const std::function<at::Tensor()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median_ms(const std::function<at::Tensor()>& call, int64_t repetitions) {
  std::vector<double> times;
  for (int64_t i = 0; i <= repetitions; ++i) {
    const double ms = seconds_of(call) * 1e3;
    if (i > 0 || ms > 2000) times.push_back(ms);  // the first call warms up, unless there will be no other
    if (ms > 2000) break;
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Attention over the first `tokens` nodes.
using OverTokens = std::function<at::Tensor(int64_t tokens)>;

/// A call over all nodes, estimated from one over some of them as quadratic in their number.
Timed quadratic(const std::string& name, int64_t nodes, const OverTokens& call) {
  constexpr int64_t kTried = 1024;
  const int64_t tried = std::min(nodes, kTried);
  const double ratio = static_cast<double>(nodes) / static_cast<double>(std::max<int64_t>(1, tried));
  call(tried);  // warms up
  return {name, [=] { return call(nodes); }, seconds_of([&] { return call(tried); }) * ratio * ratio};
}

/// What torch alone offers for the same answer, where N × N matrices fit the budget.
std::vector<Timed> torch_baselines(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Mask& mask,
                                   double budget) {
  std::vector<Timed> baselines;
  const int64_t size = mask.size();
  const double nodes = static_cast<double>(size), heads = static_cast<double>(q.size(0));
  const auto softmax = [=](int64_t n, const std::optional<at::Tensor>& bias) {
    const auto some = [&](const at::Tensor& x) { return x.narrow(1, 0, n).unsqueeze(0); };
    return at::scaled_dot_product_attention(some(q), some(k), some(v), bias);
  };
  if (nodes * nodes * heads * 4 * 3 <= budget) {
    const at::Tensor dense = mask.dense().detach();
    baselines.push_back(quadratic("torch, N x N matrices", size, [=](int64_t n) {
      const auto some = [&](const at::Tensor& x) { return x.narrow(-2, 0, n); };
      const at::Tensor weights = at::matmul(some(q), some(k).mT()) * some(dense).narrow(-1, 0, n);
      return at::matmul(weights, some(v)) / weights.sum(-1, true).clamp_min(1e-6);
    }));
    const at::Tensor bias = dense.clamp_min(1e-30).log().expand({q.size(0), -1, -1}).unsqueeze(0);
    baselines.push_back(quadratic("torch, softmax with the mask (SDPA)", size,
                                  [=](int64_t n) { return softmax(n, bias.narrow(-2, 0, n).narrow(-1, 0, n)); }));
  }
  baselines.push_back(
      quadratic("torch, softmax without a mask (SDPA)", size, [=](int64_t n) { return softmax(n, std::nullopt); }));
  baselines.push_back({"torch, linear without a mask",
                       [=] { return at::matmul(q, at::matmul(k.mT(), v)) / at::matmul(q, k.sum(-2, true).mT()); }});
  return baselines;
}

/// The routes of topomask and torch's alternatives, less those that take too much memory or too long; each of these is
/// announced and listed in `left_out`.
class Contest {
 public:
  Contest(const BenchCommand& arguments, Activity& activity) : arguments_(arguments), activity_(activity) {}

  double budget() const { return arguments_.budget_gib * (int64_t{1} << 30); }

  void add(Timed one, double bytes = 0, bool always = false) {
    if (bytes > budget()) {
      return leave_out(one.name, "it needs " + as_bytes(bytes) + ", more than --budget " + as_bytes(budget()));
    }
    if (one.seconds > arguments_.longest && !always) {
      return leave_out(one.name, "a call takes about " + as_cell(one.seconds) + " s, more than --longest " +
                                     as_cell(arguments_.longest));
    }
    slowest_ = std::max(slowest_, one.seconds);
    rows_.push_back(std::move(one));
  }

  /// Times everything, a row each.
  Json table() {
    constexpr double kLong = 2;
    if (slowest_ * static_cast<double>(arguments_.repetitions + 1) >= kLong) {
      activity_.announce(std::to_string(rows_.size()) + " things to time; the slowest takes about " +
                         as_cell(slowest_) + " s a call");
    }
    Json table = Json::array();
    std::optional<double> chosen;
    for (const Timed& row : rows_) {
      activity_.stage("timing " + row.name + " (" + std::to_string(table.size() + 1) + " of " +
                      std::to_string(rows_.size()) + ")");
      const double ms = median_ms(row.call, arguments_.repetitions);
      if (row.name.ends_with("(chosen)")) chosen = ms;
      table.push_back({{"what", row.name}, {"milliseconds", ms}});
    }
    for (Json& row : table) {
      if (chosen) row["against_chosen"] = row["milliseconds"].get<double>() / *chosen;
    }
    return table;
  }

  const Json& left_out() const { return left_out_; }

 private:
  void leave_out(const std::string& name, const std::string& reason) {
    activity_.announce(name + " is left out: " + reason);
    left_out_.push_back({{"what", name}, {"reason", reason}});
  }

  const BenchCommand& arguments_;
  Activity& activity_;
  std::vector<Timed> rows_;
  double slowest_ = 0;
  Json left_out_ = Json::array();
};

int run(const BenchCommand& arguments, bool json, Activity& activity) {
  const at::NoGradGuard no_grad;
  const NamedGraph graph = arguments.graph.make(activity);
  if (arguments.mask.makes_walks()) {
    announce_walks(activity, graph.graph.num_nodes(), arguments.mask.walks().make());
  }
  activity.stage("making the mask");
  const NamedMask named = arguments.mask.make(graph);
  activity.stage("making queries, keys and values");
  const auto random = [&] { return at::rand({arguments.heads, named.mask->size(), arguments.dimension}) + 0.1; };
  const at::Tensor q = random(), k = random(), v = random();
  AttentionOptions options{.features = FeatureMap::identity()};
  const Plan plan = explain(q, k, v, named.mask, options);

  Contest contest(arguments, activity);
  for (const RouteEstimate& estimate : plan.estimates) {
    if (!estimate.available) continue;
    options.route = estimate.route;
    const bool chosen = estimate.route == plan.route;
    contest.add({std::string("topomask, ") + to_string(estimate.route) + (chosen ? " (chosen)" : ""),
                 [&q, &k, &v, &named, options] { return attention(q, k, v, named.mask, options); }, estimate.seconds},
                estimate.bytes, /*always=*/chosen);
  }
  activity.stage("preparing what torch needs");
  for (Timed& baseline : torch_baselines(q, k, v, *named.mask, contest.budget())) contest.add(std::move(baseline));
  const Json table = contest.table();
  activity.finish();
  Json result{{"mask", named.mask->name()},       {"nodes", named.mask->size()},
              {"heads", arguments.heads},         {"dimension", arguments.dimension},
              {"threads", at::get_num_threads()}, {"forward pass, float32, median", table}};
  if (!contest.left_out().empty()) result["left out"] = contest.left_out();
  print(result, json);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<BenchCommand>();
  CLI::App* command =
      add_command(app, context, "bench", "Time the routes of attention on a graph, and the alternatives in torch",
                  "  topomask bench grid:64x64 --kind series --f 1,0.5,0.25,0.125\n"
                  "  topomask bench grid:32x32 --kind grf --walkers 4 --heads 3 --json",
                  [arguments, &context](Activity& activity) { return run(*arguments, context.json, activity); });
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
  command->add_option("--longest", arguments->longest, "seconds; what takes longer a call by estimate is left out")
      ->capture_default_str()
      ->check(positive_number());
}

}  // namespace topomask::apps
