#include "core/option_checks.h"
#include "nn/names.h"
#include "topomask/nn/graph_mask.h"
#include "topomask/nn/graph_model.h"
#include "topomask/nn/graph_options.h"

namespace topomask {
namespace {

constexpr int64_t kMostGraphWidth = int64_t{1} << 24;

/// Numbers of a list that stands in place of one number.
void check_list(const OptionChecks& check, const char* field, const std::vector<double>& list, int64_t layers) {
  if (list.empty()) return;
  check.that(static_cast<int64_t>(list.size()) == layers, field, "one number for each of ", layers, " layers, got ",
             list.size());
  for (const double value : list) {
    check.that(value >= 1 && value <= static_cast<double>(kMostGraphWidth) && value == std::floor(value), field,
               "whole numbers from 1 to ", kMostGraphWidth, ", got ", value);
  }
}

int64_t at_layer(const std::vector<double>& list, int64_t layer, int64_t otherwise) {
  return list.empty() ? otherwise : static_cast<int64_t>(list.at(static_cast<size_t>(layer)));
}

std::vector<std::string> attention_names() {
  std::vector<std::string> names = kFeatureNames.all();
  names.insert(names.begin(), "softmax");
  return names;
}

}  // namespace

int64_t GraphModelOptions::width_of(int64_t layer) const {
  return at_layer(widths, layer, width);
}

int64_t GraphModelOptions::heads_of(int64_t layer) const {
  return at_layer(layer_heads, layer, heads);
}

void GraphModelOptions::check(const std::string& origin) const {
  const OptionChecks check(origin);
  check.one_of("kind", kind, graph_model_names());
  check.within("features", features, 0, kMostGraphWidth);
  check.within("classes", classes, 0, kMostGraphWidth);
  check.within("layers", layers, 1, 65536);
  check.within("width", width, 1, kMostGraphWidth);
  check.within("heads", heads, 1, kMostGraphWidth);
  check_list(check, "widths", widths, layers);
  check_list(check, "layer_heads", layer_heads, layers);
  check.fraction("dropout", dropout);
  check.fraction("attention_dropout", attention_dropout);
  const bool drops_attention = kind == "gat" || kind == "gkat" || kind == "transformer";
  check.that(attention_dropout == 0 || drops_attention, "attention_dropout",
             "0 unless kind is gat, gkat or transformer, got ", attention_dropout, " for ", kind);
  const bool dense_kernel = kind == "transformer" && attention != "softmax" && (mask == "none" || mask == "diffusion");
  check.that(attention_dropout == 0 || !dense_kernel, "attention_dropout", "0 for kernel attention with mask ", mask,
             ", which has no entries to drop, got ", attention_dropout);
  check.one_of("norm", norm, kGraphNormNames.all());
  check.one_of("pool", pool, kGraphPoolNames.all());
  check.one_of("readout", readout, kReadoutNames.all());
  check.within("order", order, 1, 65536);
  check.positive("mlp_ratio", mlp_ratio, std::numeric_limits<double>::max());
  check.that(mlp_ratio * static_cast<double>(width) <= static_cast<double>(kMostGraphWidth), "mlp_ratio", "at most ",
             kMostGraphWidth, " hidden features for a width of ", width, ", got ", mlp_ratio);
  check.one_of("attention", present_name(attention), attention_names());
  check.not_negative("feature_offset", feature_offset, check.kLargestParameter);
  check.within("favor_features", favor_features, 0, kMostGraphWidth);
  check.one_of("mask", mask, graph_mask_names());
  check.within("walkers", walkers, 1, INT32_MAX);
  check.within("hops", hops, 0, 32766);
  check.that(halting_probability > 0 && halting_probability < 1, "halting_probability", "in (0, 1), got ",
             halting_probability);
  check.one_of("sampler", sampler, kCouplingNames.all());
  check.one_of("resample", resample, {"never", "epoch"});
  check.finite("edge_scale", edge_scale, check.kLargestParameter);
  check.not_negative("decay", decay, check.kLargestParameter);
  check.positive("diffusion_time", diffusion_time, check.kLargestParameter);
  check.that(!positive_mask || has_mask_function(*this), "positive_mask", "false for mask ", mask,
             ", which has no function of hops or distances that could be negative, got true");
  check.at_least("max_entries", max_entries, 0);
  check.within("max_degree", max_degree, 0, kMostGraphWidth);
  check.within("laplacian_positions", laplacian_positions, 0, 4096);
  check.within("random_walk_positions", random_walk_positions, 0, 4096);
  check.within("wire", wire, 0, 4096);
  check.not_negative("wire_scale", wire_scale, check.kLargestParameter);
  if (kind == "transformer") {
    check.that(widths.empty(), "widths", "empty for a transformer, whose blocks have one width, got ", widths.size(),
               " numbers");
    check.that(kReadoutNames.find(readout) == ReadoutKind::linear, "readout", "linear for a transformer, got ",
               readout);
    for (int64_t layer = 0; layer < layers; ++layer) {
      check.that(width % heads_of(layer) == 0, "heads", "a divisor of width ", width, ", got ", heads_of(layer));
    }
    return;
  }
  const auto transformer_only = [&](const char* field, int64_t value) {
    check.that(value == 0, field, "0 unless kind is transformer, got ", value, " for ", kind);
  };
  transformer_only("max_degree", max_degree);
  transformer_only("laplacian_positions", laplacian_positions);
  transformer_only("random_walk_positions", random_walk_positions);
  transformer_only("wire", wire);
}

}  // namespace topomask
