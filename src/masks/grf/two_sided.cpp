#include <ATen/ATen.h>

#include "core/move.h"
#include "masks/grf/product_mask.h"
#include "masks/grf/walk_function.h"
#include "topomask/grf.h"

namespace topomask {
namespace {

/// Φ̂₁Φ̂₂ᵀ over two tables; one parameter where both sides have the same function.
class TwoSidedGrfMask final : public ProductMask {
 public:
  TwoSidedGrfMask(WalkTable queries, WalkTable keys, std::vector<at::Tensor> functions, int64_t heads)
      : ProductMask("grf, two walk sets", queries.pattern(), keys.pattern(),
                    walk_parameters(functions, {queries, keys}), heads),
        tables_({std::move(queries), std::move(keys)}),
        functions_(functions.size()) {}

  MaskPtr rebuild(const std::vector<at::Tensor>& parameters) const override {
    const auto tables = tables_of(tables_, parameters, functions_);
    const std::vector<at::Tensor> functions(parameters.begin(), parameters.begin() + static_cast<int64_t>(functions_));
    return std::make_shared<TwoSidedGrfMask>(tables[0], tables[1], functions, heads());
  }
  MaskPtr to(const at::TensorOptions& target) const override {
    if (is_at(tables_[0].loads(), target)) return shared_from_this();
    std::vector<at::Tensor> functions = parameters();
    functions.resize(functions_);
    for (at::Tensor& f : functions) f = f.to(target);
    return std::make_shared<TwoSidedGrfMask>(tables_[0].to(target), tables_[1].to(target), functions, heads());
  }

 protected:
  Parts parts(const std::vector<at::Tensor>& parameters) const override {
    const auto tables = tables_of(tables_, parameters, functions_);
    return {feature_values(walk_features, tables[0], parameters[0], heads()),
            feature_values(walk_features, tables[1], parameters[functions_ - 1], heads())};
  }
  std::vector<at::Tensor> compared() const override { return with_seen_loads(parameters(), tables_); }
  double parts_work() const override { return feature_work(tables_[0]) + feature_work(tables_[1]); }

 private:
  std::vector<WalkTable> tables_;  // of the queries and of the keys
  size_t functions_;               // one, where both sides share it, or two
};

}  // namespace

MaskPtr grf_mask(const WalkTable& query_walks, const WalkTable& key_walks, const at::Tensor& f_query,
                 const at::Tensor& f_key) {
  check_function("grf_mask", "f_query", f_query, query_walks);
  const bool one_function = !f_key.defined() || f_key.is_same(f_query);
  check_function("grf_mask", one_function ? "f_query" : "f_key", one_function ? f_query : f_key, key_walks);
  TORCH_CHECK(key_walks.num_nodes() == query_walks.num_nodes(), "grf_mask: key_walks must have ",
              query_walks.num_nodes(), " nodes as query_walks has, got ", key_walks.num_nodes());
  TORCH_CHECK(!share_walkers(query_walks, key_walks),
              "grf_mask: key_walks must be independent of query_walks: another seed, or walkers from another "
              "first_walker on; got seed ",
              key_walks.options().seed, " with overlapping walkers for both");
  const int64_t query_heads = function_heads(f_query), key_heads = one_function ? query_heads : function_heads(f_key);
  TORCH_CHECK(query_heads == key_heads || query_heads == 1 || key_heads == 1, "grf_mask: f_key must have ", query_heads,
              " heads as f_query has, or one, got ", describe(f_key));
  std::vector<at::Tensor> functions{f_query};
  if (!one_function) functions.push_back(f_key);
  return std::make_shared<TwoSidedGrfMask>(query_walks, key_walks, std::move(functions),
                                           std::max(query_heads, key_heads));
}

}  // namespace topomask
