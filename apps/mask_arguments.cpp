#include "mask_arguments.h"

#include <ATen/ATen.h>

#include <map>
#include <sstream>

#include "command.h"
#include "core/nearest_name.h"
#include "topomask/topomask.h"

namespace topomask::apps {
namespace {

const std::map<std::string, Coupling> kCouplings{{"independent", Coupling::independent},
                                                 {"antithetic", Coupling::antithetic},
                                                 {"repelling", Coupling::repelling},
                                                 {"antithetic_repelling", Coupling::antithetic_repelling}};

std::vector<double> parse_numbers(const std::string& text) {
  std::vector<double> numbers;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    try {
      size_t used = 0;
      numbers.push_back(std::stod(part, &used));
      if (used != part.size()) throw std::invalid_argument(part);
    } catch (const std::logic_error&) {
      throw UsageError("--f: '" + part + "' is not a number");
    }
  }
  return numbers;
}

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

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : kKinds) names.push_back(name);
  return names;
}

}  // namespace

void WalkArguments::add_to(CLI::App& command) {
  command.add_option("--walkers", walkers_, "random walks from every node")->capture_default_str();
  command
      .add_option("--halting-probability", halting_probability_, "a walk halts before each hop with this probability")
      ->capture_default_str();
  command.add_option("--max-hops", max_hops_, "no walk is longer")->capture_default_str();
  command.add_option("--fixed-hops", fixed_hops_, "every walk makes exactly so many hops");
  command.add_option("--coupling", coupling_, "independent, antithetic, repelling or antithetic_repelling")
      ->capture_default_str()
      ->check(CLI::IsMember({"independent", "antithetic", "repelling", "antithetic_repelling"}));
  command.add_option("--seed", seed_, "of the walks")->capture_default_str();
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

void FunctionArguments::add_to(CLI::App& command) {
  command
      .add_option("--f", function_,
                  "function of hops: 1,0.5,0.25, or geometric:RATIO, diffusion:TIME, regularised:POWER, with --terms")
      ->capture_default_str();
  command.add_option("--terms", terms_, "terms of f")->capture_default_str()->check(CLI::Range(1, 10000));
}

at::Tensor FunctionArguments::make() const {
  const size_t colon = function_.find(':');
  const std::string name = function_.substr(0, colon);
  if (colon == std::string::npos) return at::tensor(parse_numbers(function_), at::kDouble);
  const std::vector<double> numbers = parse_numbers(function_.substr(colon + 1));
  const double number = numbers.empty() ? 1 : numbers[0];
  if (name == "geometric") return at::pow(at::full({}, number, at::kDouble), at::arange(terms_));
  if (name == "diffusion") return diffusion_coefficients(terms_, number);
  if (name == "regularised") return regularised_laplacian_coefficients(terms_, number);
  throw UsageError("--f: unknown function '" + name + "'; there are geometric, diffusion and regularised");
}

void MaskArguments::add_to(CLI::App& command, const std::string& default_kind) {
  kind_ = default_kind;
  std::string names;
  for (const std::string& name : kind_names()) names += (names.empty() ? "" : ", ") + name;
  command.add_option("--kind", kind_, "kind of mask: " + names)->capture_default_str();
  command.add_option("--diagonal", diagonal_, "of grf: shared, or debiased")
      ->capture_default_str()
      ->check(CLI::IsMember({"shared", "debiased"}));
  command.add_option("--time", time_, "of diffusion")->capture_default_str();
  function_.add_to(command);
  walks_.add_to(command);
}

NamedMask MaskArguments::make(const NamedGraph& graph) const {
  const auto maker = kKinds.find(kind_);
  if (maker == kKinds.end()) {
    const auto nearest = nearest_name(kind_, kind_names());
    throw UsageError("--kind: unknown kind '" + kind_ + "'" + (nearest ? "; did you mean " + *nearest + "?" : ""));
  }
  WalkOptions walks = walks_.make();
  at::Tensor f = as_float(function_.make());
  NamedMask made = maker->second({graph, f, walks, time_, diagonal_ == "debiased"});
  made.kind = kind_;
  return made;
}

}  // namespace topomask::apps
