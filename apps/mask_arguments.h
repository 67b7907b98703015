#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

#include "graph_arguments.h"
#include "topomask/mask.h"
#include "topomask/walks.h"

namespace topomask::apps {

/// `--walkers`, `--halting-probability`, …: how walks are made.
class WalkArguments {
 public:
  void add_to(CLI::App& command);
  WalkOptions make() const;  ///< options that contradict each other are a UsageError
  void set_defaults(int64_t walkers, double halting_probability);  ///< before add_to
  std::string description() const;                                 ///< "4 walkers, p_halt 0.5, seed 0"

 private:
  int64_t walkers_ = 4, max_hops_ = 100, fixed_hops_ = -1, ensemble_ = 0;
  double halting_probability_ = 0.5;
  std::string coupling_ = "independent";
  uint64_t seed_ = 0;
};

/// Reports on stderr what walks will cost, where it is much: steps, and the memory of their table at most
/// and of the walkers that are sampled together.
void announce_walks(Activity& activity, int64_t nodes, const WalkOptions& walks);

/// `--f`: 1,0.5,0.25, or geometric:RATIO, diffusion:TIME, regularised, each with `--terms`.
class FunctionArguments {
 public:
  void add_to(CLI::App& command);
  at::Tensor make() const;          ///< float64 [K]
  std::string description() const;  ///< "geometric:0.5, 8 terms"

 private:
  at::Tensor coefficients() const;

  std::string function_ = "geometric:0.5";
  int64_t terms_ = 8;
};

/// A mask over a graph by the name of its kind, and the exact one that it estimates, where it does.
struct NamedMask {
  std::string kind;
  MaskPtr mask;
  MaskPtr exact;  ///< null where the mask is exact itself
};

/// `--kind` and what kinds need.
class MaskArguments {
 public:
  void add_to(CLI::App& command, const std::string& default_kind);
  NamedMask make(const NamedGraph& graph) const;
  WalkArguments& walks() { return walks_; }
  const std::string& kind() const { return kind_; }
  const WalkArguments& walks() const { return walks_; }
  bool makes_walks() const;         ///< whether the kind is one of random walks
  std::string description() const;  ///< what the mask is made of: "f geometric:0.5, 8 terms; 4 walkers, …"

 private:
  std::string kind_, diagonal_ = "shared";
  double time_ = 1;
  WalkArguments walks_;
  FunctionArguments function_;
};

}  // namespace topomask::apps
