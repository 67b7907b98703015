#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "topomask/grf.h"
#include "topomask/node_kernel.h"
#include "topomask/walking_mask.h"
#include "torture/masks.h"

namespace topomask::torture {
namespace {

/// Walks of at most six hops, so that dense matrices for every hop are small.
struct DrawnWalks {
  DrawnGraph graph;
  WalkOptions options;
  std::string what;
};

DrawnWalks draw_walks(MaskDraw& d, bool exact_hops, bool groups, int64_t most_nodes = 131) {
  Draw& draw = d.draw;
  DrawnWalks walks{draw_graph(draw, d.dtype, {.most_nodes = most_nodes}), {}, {}};
  WalkOptions& options = walks.options;
  options.walkers = draw.pick<int64_t>("walkers", {2, 1, 3, 4, 8});
  options.halting_probability = draw.pick("halting", {0.5, 0.1});
  options.max_hops = 1 + draw.below("max_hops", 6);
  options.seed = draw.number("walks");
  const int64_t lengths = draw.below("length_rule", 3);
  if (lengths == 1) options.fixed_hops = options.max_hops;
  if (lengths == 2) options.survival = at::linspace(1.0, 0.3, options.max_hops + 1, at::kDouble);
  options.coupling = static_cast<Coupling>(draw.below("coupling", 4));
  if (exact_hops) options.exact_hops = draw.below("exact_hops", std::min<int64_t>(3, options.max_hops + 1));
  const bool repelling = options.coupling >= Coupling::repelling;
  if (!repelling) options.proposal = draw.pick("proposal", {Proposal::uniform, Proposal::weights, Proposal::given});
  if (options.proposal == Proposal::given) {
    options.proposal_weights = draw.uniform("proposals", {walks.graph.graph.num_entries()}, 0.2, 1.0).to(d.dtype);
  }
  if (groups) {
    // At least two independent groups, all of one size.
    options.group_products = true;
    options.walkers = 4 * ((options.walkers + 3) / 4);
    if (repelling) options.ensemble = 2;
  }
  constexpr const char* kCouplings[] = {"independent", "antithetic", "repelling", "antithetic repelling"};
  constexpr const char* kProposals[] = {"uniform", "by weight", "given"};
  constexpr const char* kRules[] = {"geometric", "fixed", "general"};
  walks.what = std::to_string(options.walkers) + " " + kCouplings[static_cast<int>(options.coupling)] + " walkers, " +
               kRules[lengths] + " lengths up to " + std::to_string(options.max_hops) + ", " +
               kProposals[static_cast<int>(options.proposal)] +
               when(options.exact_hops > 0, std::to_string(options.exact_hops) + " exact hops") + ", " +
               walks.graph.what;
  return walks;
}

at::Tensor draw_f(MaskDraw& d, const std::string& name, int64_t max_hops) {
  const int64_t terms = 1 + d.draw.below(name + "_terms", max_hops + 1);
  return d.leaf(name, d.draw.uniform(name, d.per_head({terms}), d.draw.chance("both_signs", 30) ? -1.0 : 0.05, 1.0));
}

/// (n²‖Φ_i‖² − fᵀG_i f)/P in place of the diagonal.
MaskValue with_debiased_diagonal(const MaskValue& phi, const at::Tensor& f, const at::Tensor& groups, double walkers,
                                 double pairs) {
  MaskValue value = product_of(phi, phi);
  const at::Tensor g = groups.narrow(1, 0, f.size(-1)).narrow(2, 0, f.size(-1));
  const auto form = [&](const at::Tensor& c, const at::Tensor& m) {
    return at::einsum("...t,itu,...u->...i", {c, m, c});
  };
  const at::Tensor diagonal = (walkers * walkers * phi.matrix.square().sum(-1) - form(f, g)) / pairs;
  const at::Tensor eye = at::eye(phi.matrix.size(-1), at::kDouble);
  value.matrix = value.matrix * (1 - eye) + diagonal.unsqueeze(-1) * eye;
  const at::Tensor bound =
      (walkers * walkers * phi.magnitude.square().sum(-1) + form(f.detach().abs(), g.abs())) / pairs;
  value.magnitude = value.magnitude + bound.unsqueeze(-1) * eye;
  return value;
}

DrawnMask draw_grf(MaskDraw& d) {
  const bool debiased = d.draw.chance("debiased", 50);
  const DrawnWalks walks = draw_walks(d, false, debiased);
  const WalkTable table = sample_walks(walks.graph.graph, walks.options);
  const at::Tensor f = draw_f(d, "f", table.max_hops());
  const at::Tensor hops = walk_matrices(table, false);
  at::Tensor groups;
  if (debiased) groups = group_products(table, table.max_hops() + 1);
  const auto n = static_cast<double>(table.walkers()), pairs = static_cast<double>(table.independent_pairs());
  return d.finish((debiased ? "(debiased, " : "(shared, ") + walks.what + ")",
                  grf_mask(table, f, {debiased ? Diagonal::debiased : Diagonal::shared}), [=](const auto& leaves) {
                    const MaskValue phi = walk_sum(hops, leaves[0]);
                    return debiased ? with_debiased_diagonal(phi, leaves[0], groups, n, pairs) : product_of(phi, phi);
                  });
}

DrawnMask draw_independent_grf(MaskDraw& d) {
  const DrawnWalks walks = draw_walks(d, false, false);
  WalkOptions other = walks.options;
  other.seed += 1;
  const bool reversed = d.draw.chance("reversed_keys", 50) && walks.options.proposal != Proposal::given;
  const WalkTable queries = sample_walks(walks.graph.graph, walks.options),
                  keys = sample_walks(reversed ? walks.graph.graph.reversed() : walks.graph.graph, other);
  const at::Tensor f = draw_f(d, "f", queries.max_hops());
  const bool two = d.draw.chance("two_functions", 50);
  at::Tensor f_key;
  if (two) f_key = draw_f(d, "f_key", keys.max_hops());
  const at::Tensor left = walk_matrices(queries, false), right = walk_matrices(keys, false);
  return d.finish("(" + walks.what + when(two, "two functions") + when(reversed, "keys on the reversed graph") + ")",
                  grf_mask(queries, keys, f, f_key), [=](const auto& leaves) {
                    return product_of(walk_sum(left, leaves[0]), walk_sum(right, leaves[two ? 1 : 0]));
                  });
}

DrawnMask draw_asymmetric_grf(MaskDraw& d) {
  const DrawnWalks walks = draw_walks(d, false, false);
  const WalkTable table = sample_walks(walks.graph.graph, walks.options);
  const at::Tensor f = draw_f(d, "f", table.max_hops()), hops = walk_matrices(table, false);
  return d.finish("(" + walks.what + ")", asymmetric_grf_mask(table, f),
                  [hops](const auto& leaves) { return walk_sum(hops, leaves[0]); });
}

DrawnMask draw_ad_hoc(MaskDraw& d) {
  const DrawnWalks walks = draw_walks(d, false, false);
  const WalkTable table = sample_walks(walks.graph.graph, walks.options);
  const at::Tensor f = draw_f(d, "f", table.max_hops()), hops = walk_matrices(table, true);
  return d.finish("(" + walks.what + ")", ad_hoc_mask(table, f), [hops](const auto& leaves) {
    const MaskValue phi = walk_sum(hops, leaves[0]);
    return product_of(phi, phi);
  });
}

/// Exact powers in place of the first hops; G_i from the groups' sums, which is possible where all groups are of one
/// size: a group's exact part is its size times W^t.
DrawnMask draw_hybrid_grf(MaskDraw& d) {
  const bool debiased = d.draw.chance("debiased", 50);
  const DrawnWalks walks = draw_walks(d, true, debiased);
  const WalkTable table = sample_walks(walks.graph.graph, walks.options);
  const at::Tensor f = draw_f(d, "f", table.max_hops());
  at::Tensor hops = walk_matrices(table, false);
  const int64_t head = walks.options.exact_hops;
  at::Tensor power = at::eye(walks.graph.nodes(), at::kDouble);
  for (int64_t t = 0; t <= head; ++t) {
    if (t > 0) power = at::matmul(power, walks.graph.weights);
    hops.select(0, t).copy_(power);
  }
  at::Tensor groups;
  const auto n = static_cast<double>(table.walkers()), pairs = static_cast<double>(table.independent_pairs());
  if (debiased) {
    const double size = n / static_cast<double>(table.groups());
    groups = group_products(table, table.max_hops() + 1).clone();
    const at::Tensor inner = at::einsum("tij,uij->itu", {hops, hops}) * (n * size);
    groups.narrow(1, 0, head + 1).copy_(inner.narrow(1, 0, head + 1));
    groups.narrow(2, 0, head + 1).copy_(inner.narrow(2, 0, head + 1));
  }
  return d.finish((debiased ? "(debiased, " : "(shared, ") + walks.what + ")",
                  hybrid_grf_mask(table, walks.graph.graph, f, {debiased ? Diagonal::debiased : Diagonal::shared}),
                  [=](const auto& leaves) {
                    const MaskValue phi = walk_sum(hops, leaves[0]);
                    return debiased ? with_debiased_diagonal(phi, leaves[0], groups, n, pairs) : product_of(phi, phi);
                  });
}

DrawnMask draw_stitched_grf(MaskDraw& d) {
  const DrawnWalks walks = draw_walks(d, false, false, 65);
  const int64_t pairs = 1 + d.draw.below("pairs", 3);
  std::vector<WalkTable> tables;
  std::vector<at::Tensor> hops;
  for (int64_t t = 0; t < 2 * pairs; ++t) {
    WalkOptions options = walks.options;
    options.seed += static_cast<uint64_t>(t);
    tables.push_back(sample_walks(walks.graph.graph, options));
    hops.push_back(walk_matrices(tables.back(), false));
  }
  const at::Tensor f = draw_f(d, "f", tables[0].max_hops());
  const bool never_sparse = d.draw.chance("operator_only", 25);
  return d.finish("(" + std::to_string(2 * pairs) + " tables, " + walks.what + when(never_sparse, "never sparse") + ")",
                  stitched_grf_mask(tables, f, {never_sparse ? 0 : int64_t{1} << 26}), [hops](const auto& leaves) {
                    MaskValue whole;
                    for (size_t t = 0; t < hops.size(); t += 2) {
                      const MaskValue pair = product_of(walk_sum(hops[t], leaves[0]), walk_sum(hops[t + 1], leaves[0]));
                      whole = t == 0 ? pair
                                     : MaskValue{at::matmul(whole.matrix, pair.matrix),
                                                 at::matmul(whole.magnitude, pair.magnitude)};
                    }
                    return whole;
                  });
}

/// Any mask with sparse factors, here Φ̂Φ̂ᵀ or Φ̂ itself; the signs come from torch's CPU generator.
DrawnMask draw_projected(MaskDraw& d) {
  const DrawnWalks walks = draw_walks(d, false, false);
  const WalkTable table = sample_walks(walks.graph.graph, walks.options);
  const at::Tensor f = draw_f(d, "f", table.max_hops()), hops = walk_matrices(table, false);
  const bool symmetric = d.draw.chance("symmetric", 60);
  const ProjectionOptions options{.width = d.draw.pick<int64_t>("width", {1, 3, 16, 40}),
                                  .seed = d.draw.number("projection")};
  const at::Tensor bits =
      at::randint(0, 2, {walks.graph.nodes(), options.width}, at::detail::createCPUGenerator(options.seed), at::kLong);
  const at::Tensor p = (2 * bits - 1).to(at::kDouble) / std::sqrt(static_cast<double>(options.width));
  return d.finish(
      "(width " + std::to_string(options.width) + (symmetric ? ", symmetric, " : ", one side, ") + walks.what + ")",
      projected_mask(symmetric ? grf_mask(table, f) : asymmetric_grf_mask(table, f), options), [=](const auto& leaves) {
        const MaskValue phi = walk_sum(hops, leaves[0]);
        const MaskValue left{at::matmul(phi.matrix, p), at::matmul(phi.magnitude, p.abs())};
        return product_of(left, symmetric ? left : MaskValue{p, p.abs()});
      });
}

DrawnMask draw_walking(MaskDraw& d) {
  const DrawnWalks walks = draw_walks(d, d.draw.chance("with_exact_hops", 30), false);
  const WalkTable table = sample_walks(walks.graph.graph, walks.options);
  const at::Tensor f = draw_f(d, "f", table.max_hops()), hops = walk_matrices(table, false);
  return d.finish("(" + walks.what + ")", walking_mask(walks.graph.graph, f, walks.options),
                  [hops](const auto& leaves) { return walk_sum(hops, leaves[0]); });
}

/// Σ_t λ^t counts_t: [N, N] or [H, N, N].
at::Tensor frequencies(const at::Tensor& hops, const at::Tensor& discount, double walkers) {
  const at::Tensor powers = at::pow(discount.unsqueeze(-1), at::arange(hops.size(0), at::kDouble));
  return walk_sum(hops, powers).matrix * walkers;
}

DrawnMask draw_node_kernel(MaskDraw& d) {
  const DrawnWalks walks = draw_walks(d, false, false);
  const WalkTable table = sample_walks(walks.graph.graph, walks.options);
  const bool learnt = d.draw.chance("discounted", 70);
  at::Tensor discount;
  if (learnt) discount = d.leaf("discount", d.draw.uniform("discount", d.per_head({}), 0.2, 1.2));
  const NodeKernelOptions options{.alpha = d.draw.pick<int64_t>("alpha", {1, 1, 0}),
                                  .p = d.draw.pick("p", {2.0, 1.0, 3.0})};
  const bool kernel = d.draw.chance("kernel", 60);
  const at::Tensor hops = walk_matrices(table, true);
  const auto n = static_cast<double>(table.walkers());
  const auto reference = [=](const auto& leaves) {
    at::Tensor f = frequencies(hops, learnt ? leaves[0] : at::ones({}, at::kDouble), n);
    if (!kernel) {
      const at::Tensor ratio = f / f.diagonal(0, -2, -1).unsqueeze(-1);
      return MaskValue{ratio, ratio.detach()};
    }
    if (options.alpha == 1) f = f / f.pow(options.p).sum(-1, true).pow(1 / options.p);
    const at::Tensor matrix = at::matmul(f, f.mT());
    return MaskValue{matrix, matrix.detach()};
  };
  return d.finish((kernel ? "(kernel, alpha " + std::to_string(options.alpha) + ", p " + std::to_string(options.p)
                          : std::string("(frequencies")) +
                      ", " + walks.what + ")",
                  kernel ? node_kernel_mask(table, discount, options) : node_frequency_mask(table, discount),
                  reference);
}

}  // namespace

std::vector<Family> walk_families() {
  return {{"grf", draw_grf},
          {"independent grf", draw_independent_grf},
          {"asymmetric grf", draw_asymmetric_grf},
          {"ad hoc grf", draw_ad_hoc},
          {"hybrid grf", draw_hybrid_grf},
          {"stitched grf", draw_stitched_grf},
          {"projected grf", draw_projected},
          {"walking", draw_walking},
          {"node kernel", draw_node_kernel}};
}

}  // namespace topomask::torture
