#include "mask_arguments.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <map>
#include <set>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "masks/names.h"
#include "output.h"
#include "topomask/topomask.h"
#include "walks/names.h"
#include "walks/plan.h"

namespace topomask::apps {
namespace {

/// What a kind is made from.
struct Ingredients {
  const NamedGraph& graph;
  at::Tensor f;  // float32 [K]
  WalkOptions walks;
  double time;
  bool debiased;
};

at::Tensor as_float(const at::Tensor& values) {
  return values.to(at::kFloat);
}

MaskPtr exact_product(const Ingredients& from) {  // ΦΦᵀ of the exact Φ
  return power_series_mask(from.graph.graph, convolve(from.f, 2, 2 * from.f.size(0) - 1));
}

NamedMask grf(const Ingredients& from) {
  WalkOptions walks = from.walks;
  walks.group_products = from.debiased;
  return {
      "",
      grf_mask(sample_walks(from.graph.graph, walks), from.f, {from.debiased ? Diagonal::debiased : Diagonal::shared}),
      from.graph.graph.directed() ? nullptr : exact_product(from)};
}

NamedMask toeplitz(const Ingredients& from) {
  if (from.graph.dims.empty()) throw UsageError("--kind toeplitz needs a grid, such as grid:28x28 or path:100");
  int64_t longest = 1;
  for (const int64_t size : from.graph.dims) longest += size - 1;
  at::Tensor f = at::zeros({longest});
  const int64_t terms = std::min(longest, from.f.size(0));
  f.slice(0, 0, terms).copy_(from.f.slice(0, 0, terms));
  return {"", toeplitz_distance_mask(from.graph.dims, f), nullptr};
}

NamedMask forest(const Ingredients& from) {
  // Lengths are hops; what is no forest is masked through one that spans it.
  const Graph hops = from.graph.graph.with_weights(at::ones_like(from.graph.graph.weights()));
  return {"", tree_mask(minimum_spanning_forest(hops), DistanceFunction::table(from.f)), nullptr};
}

using Maker = NamedMask (*)(const Ingredients&);

const std::map<std::string, Maker> kKinds{
    {"none",
     [](const Ingredients& from) {
       return NamedMask{"", none_mask(from.graph.graph.num_nodes()), nullptr};
     }},
    {"causal",
     [](const Ingredients& from) {
       return NamedMask{"", causal_mask(from.graph.graph.num_nodes()), nullptr};
     }},
    {"neighbours",
     [](const Ingredients& from) {
       return NamedMask{"", neighbours_mask(from.graph.graph), nullptr};
     }},
    {"series",
     [](const Ingredients& from) {
       return NamedMask{"", power_series_mask(from.graph.graph, from.f), nullptr};
     }},
    {"grf", grf},
    {"asymmetric_grf",
     [](const Ingredients& from) {
       return NamedMask{"", asymmetric_grf_mask(sample_walks(from.graph.graph, from.walks), from.f),
                        power_series_mask(from.graph.graph, from.f)};
     }},
    {"ad_hoc",
     [](const Ingredients& from) {
       return NamedMask{"", ad_hoc_mask(sample_walks(from.graph.graph, from.walks), from.f), nullptr};
     }},
    {"node_kernel",
     [](const Ingredients& from) {
       return NamedMask{"", node_kernel_mask(sample_walks(from.graph.graph, from.walks)), nullptr};
     }},
    {"toeplitz", toeplitz},
    {"forest", forest},
    {"diffusion",
     [](const Ingredients& from) {
       return NamedMask{"",
                        diffusion_mask(from.graph.graph, at::full({}, from.time, at::kFloat),
                                       {.generator = Generator::normalised_laplacian}),
                        nullptr};
     }},
    {"centrality",
     [](const Ingredients& from) {
       return NamedMask{
           "", centrality_mask(from.graph.graph, at::linspace(0.1, 0.9, 1 + from.graph.graph.max_degree())), nullptr};
     }},
};

constexpr int64_t kMostHops = 32767;  // hops are int16

/// Kinds that f is a function of walks' hops in.
bool walks_on(const std::string& kind) {
  static const std::set<std::string> kinds{"grf", "asymmetric_grf", "ad_hoc"};
  return kinds.contains(kind);
}

int64_t longest_walk(const WalkOptions& walks) {
  return walks.fixed_hops.value_or(walks.max_hops);
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : kKinds) names.push_back(name);
  return names;
}

}  // namespace

void WalkArguments::add_to(CLI::App& command) {
  command.add_option("--walkers", walkers_, "random walks from every node")
      ->capture_default_str()
      ->check(whole_number(1, std::numeric_limits<int32_t>::max()));
  command
      .add_option("--halting-probability", halting_probability_, "a walk halts before each hop with this probability")
      ->capture_default_str()
      ->check(between_zero_and_one());
  command.add_option("--max-hops", max_hops_, "no walk is longer")
      ->capture_default_str()
      ->check(whole_number(0, kMostHops));
  command.add_option("--fixed-hops", fixed_hops_, "every walk makes exactly so many hops")
      ->check(whole_number(0, kMostHops));
  command.add_option("--coupling", coupling_, kCouplingNames.listed())
      ->capture_default_str()
      ->check(one_of(kCouplingNames.all()));
  command.add_option("--ensemble", ensemble_, "repelling walkers that repel each other; divides --walkers; 0: all")
      ->capture_default_str()
      ->check(whole_number(0, std::numeric_limits<int32_t>::max()));
  command.add_option("--seed", seed_, "of the walks")->capture_default_str()->check(whole_number(0));
}

WalkOptions WalkArguments::make() const {
  WalkOptions options{.walkers = walkers_,
                      .halting_probability = halting_probability_,
                      .max_hops = max_hops_,
                      .coupling = *kCouplingNames.find(coupling_),
                      .ensemble = ensemble_,
                      .seed = seed_};
  if (fixed_hops_ >= 0) options.fixed_hops = fixed_hops_;
  try {
    const WalkPlan checked("--walkers", options);
  } catch (const c10::Error& error) {
    throw UsageError(error.what_without_backtrace());
  }
  return options;
}

void WalkArguments::set_defaults(int64_t walkers, double halting_probability) {
  walkers_ = walkers;
  halting_probability_ = halting_probability;
}

std::string WalkArguments::description() const {
  std::string text = std::to_string(walkers_) + (walkers_ == 1 ? " walker" : " walkers");
  text +=
      fixed_hops_ >= 0 ? " of " + std::to_string(fixed_hops_) + " hops" : ", p_halt " + as_cell(halting_probability_);
  return text + (coupling_ == "independent" ? "" : ", " + coupling_) + ", seed " + std::to_string(seed_);
}

void announce_walks(Activity& activity, int64_t nodes, const WalkOptions& walks) {
  constexpr double kMuch = 2e8, kMuchMemory = 1 << 30, kBytes = 26;  // of a triple and its entry
  const WalkPlan plan("walks", walks);
  const auto n = static_cast<double>(nodes);
  const double visits = plan.visits_per_walker() * n * static_cast<double>(walks.walkers);
  const double bytes = kBytes * std::min(visits, n * n * static_cast<double>(longest_walk(walks) + 1));
  const auto at_once = static_cast<double>(plan.repelling ? std::min<int64_t>(nodes, at::get_num_threads()) : 0);
  const double sampled = kEnsembleVisitBytes * at_once * plan.visits_per_walker() * static_cast<double>(plan.group);
  if (visits < kMuch && bytes + sampled < kMuchMemory) return;
  char steps[32];
  std::snprintf(steps, sizeof(steps), "%.2g", visits);
  const std::string sampling = sampled > 0 ? " and " + as_bytes(sampled) + " while walkers repel each other" : "";
  activity.announce(std::string("about ") + steps + " steps of walks, and up to " + as_bytes(bytes) +
                    " for their table" + sampling + " (" + as_bytes(free_memory()) + " are free)");
}

void MaskArguments::add_to(CLI::App& command, const std::string& default_kind) {
  kind_ = default_kind;
  std::string names;
  for (const std::string& name : kind_names()) names += (names.empty() ? "" : ", ") + name;
  command.add_option("--kind", kind_, "kind of mask: " + names)->capture_default_str();
  command.add_option("--diagonal", diagonal_, "of grf: " + kDiagonalNames.listed())
      ->capture_default_str()
      ->check(one_of(kDiagonalNames.all()));
  command.add_option("--time", time_, "of diffusion")
      ->capture_default_str()
      ->check(finite_number("from 0 to 1e6", [](double t) { return t >= 0 && t <= 1e6; }));
  function_.add_to(command);
  walks_.add_to(command);
}

bool MaskArguments::makes_walks() const {
  return walks_on(kind_) || kind_ == "node_kernel";
}

std::string MaskArguments::description() const {
  static const std::set<std::string> without_function{"none",        "causal",    "neighbours",
                                                      "node_kernel", "diffusion", "centrality"};
  std::string text = kind_ == "diffusion" ? "time " + as_cell(time_) : "";
  if (!without_function.contains(kind_)) text = "f " + function_.description();
  if (makes_walks()) text += (text.empty() ? "" : "; ") + walks_.description();
  return text;
}

NamedMask MaskArguments::make(const NamedGraph& graph) const {
  const auto maker = kKinds.find(kind_);
  if (maker == kKinds.end()) {
    throw UsageError("--kind: unknown kind '" + kind_ + "'" + hint(kind_, kind_names()));
  }
  WalkOptions walks = walks_.make();
  at::Tensor f = as_float(function_.make());
  if (walks_on(kind_) && f.size(0) > longest_walk(walks) + 1) {
    throw UsageError("--f has " + std::to_string(f.size(0)) + " terms, and walks of at most " +
                     std::to_string(longest_walk(walks)) + " hops (--max-hops, --fixed-hops) reach " +
                     std::to_string(longest_walk(walks) + 1) + " of them");
  }
  NamedMask made = maker->second({graph, f, walks, time_, *kDiagonalNames.find(diagonal_) == Diagonal::debiased});
  made.kind = kind_;
  return made;
}

}  // namespace topomask::apps
