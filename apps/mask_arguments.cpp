#include "mask_arguments.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <set>

#include "activity.h"
#include "argument_checks.h"
#include "command.h"
#include "output.h"
#include "topomask/topomask.h"

namespace topomask::apps {
namespace {

const std::map<std::string, Coupling> kCouplings{{"independent", Coupling::independent},
                                                 {"antithetic", Coupling::antithetic},
                                                 {"repelling", Coupling::repelling},
                                                 {"antithetic_repelling", Coupling::antithetic_repelling}};

double parse_coefficient(const std::string& text) {
  double number = 0;
  if (!parse_number(text, number)) throw UsageError("--f: '" + text + "' is not a finite number");
  return number;
}

std::vector<double> parse_numbers(const std::string& text) {
  std::vector<double> numbers;
  size_t start = 0;
  for (size_t end = 0; (end = text.find(',', start)) != std::string::npos; start = end + 1) {
    numbers.push_back(parse_coefficient(text.substr(start, end - start)));
  }
  numbers.push_back(parse_coefficient(text.substr(start)));
  return numbers;
}

/// A named function of one number.
struct Series {
  const char* argument;
  at::Tensor (*make)(int64_t terms, double number);
};

const std::map<std::string, Series> kSeries{
    {"geometric",
     {"RATIO",
      [](int64_t terms, double ratio) { return at::pow(at::full({}, ratio, at::kDouble), at::arange(terms)); }}},
    {"diffusion", {"TIME", [](int64_t terms, double time) { return diffusion_coefficients(terms, time); }}},
    {"regularised",
     {"POWER", [](int64_t terms, double power) { return regularised_laplacian_coefficients(terms, power); }}}};

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
  if (from.graph.dims.empty()) throw UsageError("--kind toeplitz wants a grid, such as grid:28x28 or path:100");
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
  command.add_option("--coupling", coupling_, "independent, antithetic, repelling or antithetic_repelling")
      ->capture_default_str()
      ->check(CLI::IsMember({"independent", "antithetic", "repelling", "antithetic_repelling"}));
  command.add_option("--seed", seed_, "of the walks")->capture_default_str()->check(whole_number(0));
}

WalkOptions WalkArguments::make() const {
  WalkOptions options{.walkers = walkers_,
                      .halting_probability = halting_probability_,
                      .max_hops = max_hops_,
                      .coupling = kCouplings.at(coupling_),
                      .seed = seed_};
  if (fixed_hops_ >= 0) options.fixed_hops = fixed_hops_;
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

void announce_walks(const std::string& command, int64_t nodes, const WalkOptions& walks) {
  constexpr double kMuch = 2e8, kMuchMemory = 1 << 30, kBytes = 26;  // of a triple and its entry
  double visits = 1, alive = 1;
  for (int64_t hop = 0; hop < longest_walk(walks); ++hop) {
    visits += alive *= walks.fixed_hops ? 1 : 1 - walks.halting_probability;
  }
  const auto n = static_cast<double>(nodes);
  visits *= n * static_cast<double>(walks.walkers);
  const double bytes = kBytes * std::min(visits, n * n * static_cast<double>(longest_walk(walks) + 1));
  if (visits < kMuch && bytes < kMuchMemory) return;
  char steps[32];
  std::snprintf(steps, sizeof(steps), "%.2g", visits);
  announce(command, std::string("about ") + steps + " steps of walks, and up to " + as_bytes(bytes) +
                        " for their table (" + as_bytes(free_memory()) + " are free)");
}

void FunctionArguments::add_to(CLI::App& command) {
  command
      .add_option("--f", function_,
                  "function of hops: 1,0.5,0.25, or geometric:RATIO, diffusion:TIME, regularised:POWER, with --terms")
      ->capture_default_str();
  command.add_option("--terms", terms_, "terms of f")->capture_default_str()->check(whole_number(1, 10000));
}

std::string FunctionArguments::description() const {
  return function_ + (function_.find(':') == std::string::npos ? "" : ", " + std::to_string(terms_) + " terms");
}

at::Tensor FunctionArguments::make() const {
  const at::Tensor f = coefficients();
  // Masks are made in float32.
  if (!f.to(at::kFloat).isfinite().all().item<bool>()) {
    throw UsageError("--f: '" + function_ + "' with --terms " + std::to_string(terms_) +
                     " has coefficients beyond the range of float32");
  }
  return f;
}

at::Tensor FunctionArguments::coefficients() const {
  const size_t colon = function_.find(':');
  const std::string name = function_.substr(0, colon);
  const auto series = kSeries.find(name);
  if (colon == std::string::npos && series == kSeries.end()) return at::tensor(parse_numbers(function_), at::kDouble);
  if (series == kSeries.end()) {
    throw UsageError("--f: unknown function '" + name + "'" + hint(name, {"geometric", "diffusion", "regularised"}) +
                     " (there are geometric, diffusion and regularised)");
  }
  if (colon == std::string::npos || colon + 1 == function_.size()) {
    throw UsageError("--f: " + name + " wants a number, as in --f " + name + ":" + series->second.argument + ", got '" +
                     function_ + "'");
  }
  try {
    return series->second.make(terms_, parse_coefficient(function_.substr(colon + 1)));
  } catch (const c10::Error& error) {
    throw UsageError("--f: " + function_ + ": " + error.what_without_backtrace());
  }
}

void MaskArguments::add_to(CLI::App& command, const std::string& default_kind) {
  kind_ = default_kind;
  std::string names;
  for (const std::string& name : kind_names()) names += (names.empty() ? "" : ", ") + name;
  command.add_option("--kind", kind_, "kind of mask: " + names)->capture_default_str();
  command.add_option("--diagonal", diagonal_, "of grf: shared, or debiased")
      ->capture_default_str()
      ->check(CLI::IsMember({"shared", "debiased"}));
  command.add_option("--time", time_, "of diffusion")->capture_default_str()->check(finite_number(">= 0", [](double t) {
    return t >= 0;
  }));
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
  NamedMask made = maker->second({graph, f, walks, time_, diagonal_ == "debiased"});
  made.kind = kind_;
  return made;
}

}  // namespace topomask::apps
