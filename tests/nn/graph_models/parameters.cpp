#include "topomask/nn/parameters.h"

#include <ATen/ATen.h>

#include "nn/graph_models/sets.h"
#include "topomask/config.h"
#include "topomask/nn/graph_mask.h"

namespace topomask::testing {
namespace {

GraphModelOptions motif(const char* kind) {
  GraphModelOptions o;
  o.kind = kind;
  o.features = 5;
  o.classes = 2;
  return o;
}

TEST(GraphModelParameters, CountAsPublishedForMotifs) {
  GraphModelOptions o = motif("gkat");
  EXPECT_EQ(make_graph_model(o)->parameter_count(), 1280);
  o.mask = "neighbours";  // what the paper compares with as GAT
  EXPECT_EQ(make_graph_model(o)->parameter_count(), 1280);
  o = motif("gcn");
  o.width = 32;
  EXPECT_EQ(make_graph_model(o)->parameter_count(), 1314);
  o.kind = "cheb";
  EXPECT_EQ(make_graph_model(o)->parameter_count(), (2 * 5 * 32 + 32) + (2 * 32 * 32 + 32) + 66);
}

TEST(GraphModelParameters, OfGraphClassificationAndCitations) {
  GraphModelOptions o = motif("gkat");
  o.mask = "frequency";
  EXPECT_EQ(make_graph_model(o)->parameter_count(), 1280);
  o.mask = "gkat";
  o.widths = {4, 2};  // the induced cycle
  o.layer_heads = {7, 1};
  o.features = 1;
  EXPECT_EQ(make_graph_model(o)->parameter_count(), 3 * 7 * 4 + 3 * 28 * 2 + 2 * 2 + 2);
  GraphModelOptions citation = motif("gkat");
  citation.features = 1433;
  citation.classes = 7;
  citation.width = 8;
  citation.layer_heads = {8, 1};
  citation.readout = "layer";
  citation.node_level = true;
  EXPECT_EQ(make_graph_model(citation)->parameter_count(), 3 * 8 * 1433 * 8 + 3 * 64 * 7);
  citation.kind = "gat";
  EXPECT_EQ(make_graph_model(citation)->parameter_count(), (1433 * 64 + 3 * 64) + (64 * 7 + 3 * 7));
}

TEST(GraphModelParameters, LogitsOfTheLastLayerArePerNode) {
  for (const char* kind : {"gkat", "gat", "gcn", "sgc", "cheb", "gin", "sage", "transformer_conv"}) {
    GraphModelOptions o;
    o.kind = kind;
    o.readout = "layer";
    o.node_level = true;
    o.layer_heads = {3, 2};
    const GraphSet set = small_set();
    EXPECT_EQ(run(*double_model(o), set, all_of(set)).sizes(), at::IntArrayRef({set.num_nodes(), 3})) << kind;
    o.node_level = false;
    EXPECT_EQ(run(*double_model(o), set, all_of(set)).sizes(), at::IntArrayRef({set.size(), 3})) << kind;
  }
}

TEST(GraphModelParameters, NormsResidualsAndPools) {
  const GraphSet set = small_set();
  for (const char* norm : {"none", "batch", "layer"}) {
    for (const char* pool : {"mean", "sum", "max", "attention"}) {
      SCOPED_TRACE(std::string(norm) + ", " + pool);
      GraphModelOptions o;
      o.kind = "gin";
      o.norm = norm;
      o.pool = pool;
      o.residual = true;
      const auto model = double_model(o);
      const at::Tensor logits = run(*model, set, all_of(set));
      EXPECT_EQ(logits.sizes(), at::IntArrayRef({set.size(), 3}));
      {  // at eps = 0, nodes with the same neighbours are equal, and their maximum has no derivative
        const at::NoGradGuard no_grad;
        for (const at::Tensor& p : model->parameters()) p.add_(at::randn_like(p), 0.1);
      }
      // The values of the layers: reference.cpp.
      expect_gradients_of_differences(model->parameters(), [&] { return run(*model, set, all_of(set)); });
    }
  }
}

TEST(GraphModelParameters, AllWeightsDecayAndNoBiasNormOrPosition) {
  const auto kinds = [](const GraphModelOptions& o) {
    std::map<std::string, ParameterKind> found;
    for (const auto& item : make_graph_model(o)->named_parameters()) {
      found[item.key()] = parameter_kind(item.key(), item.value());
    }
    return found;
  };
  const auto is_vector = [](const std::string& name) {
    const std::string last = name.substr(name.rfind('.') + 1);
    return last == "bias" || last == "eps" || last == "degree" || name.starts_with("norm") ||
           name.find("_norm.") != std::string::npos;
  };
  for (const std::string& name : graph_model_names()) {
    GraphModelOptions o = motif(name.c_str());
    o.width = 8;
    o.norm = "batch";
    o.pool = "attention";
    if (name == "transformer") o.max_degree = 3;
    for (const auto& [parameter, kind] : kinds(o)) {
      EXPECT_EQ(kind, is_vector(parameter) ? ParameterKind::vector : ParameterKind::matrix) << name << " " << parameter;
    }
  }
  EXPECT_EQ(kinds(motif("gkat")).at("layer1.conv.wv"), ParameterKind::matrix);
  EXPECT_EQ(kinds(motif("gat")).at("layer0.conv.att_src"), ParameterKind::matrix);
}

TEST(GraphModelParameters, OfMasksAreKnownAsSuch) {
  for (const char* kind : {"transformer", "gkat"}) {
    GraphModelOptions o = motif(kind);
    o.width = 8;
    o.mask = "series";
    const auto count = [&o] {
      int64_t masks = 0;
      for (const auto& item : make_graph_model(o)->named_parameters()) {
        if (parameter_kind(item.key(), item.value()) == ParameterKind::mask) masks += item.value().numel();
      }
      return masks;
    };
    o.learn_mask = true;
    EXPECT_EQ(count(), 2 * 2 * 4);  // layers, heads, hops + 1
    o.positive_mask = true;
    EXPECT_EQ(count(), 2 * 2 * 4);
    o.learn_mask = false;
    EXPECT_EQ(count(), 0);
  }
}

TEST(GraphModelParameters, APositiveFunctionNeedsAMaskThatHasOne) {
  for (const char* mask : {"diffusion", "shortest_path", "neighbours", "gkat", "none"}) {
    GraphModelOptions o = motif("transformer");
    o.width = 8;
    o.mask = mask;
    o.positive_mask = true;
    EXPECT_ERROR(make_graph_model(o), std::string("graph model: positive_mask must be false for mask ") + mask);
    EXPECT_ERROR(o.check("train: model."), std::string("train: model.positive_mask must be false for mask ") + mask);
  }
}

TEST(GraphModelParameters, FollowTheSeedAlone) {
  GraphModelOptions o = motif("gat");
  at::manual_seed(1);
  const auto first = make_graph_model(o, 3);
  const at::Tensor drawn = at::rand({3});
  at::manual_seed(1);
  EXPECT_TRUE(at::equal(at::rand({3}), drawn));  // making a model draws nothing from torch's generator
  const auto second = make_graph_model(o, 3), other = make_graph_model(o, 4);
  EXPECT_TRUE(at::equal(first->parameters()[0], second->parameters()[0]));
  EXPECT_FALSE(at::equal(first->parameters()[0], other->parameters()[0]));
}

TEST(GraphModelOptions, AreListedReadAndChecked) {
  GraphModelOptions o;
  const auto fields = option_fields(o);
  read_options(fields, R"({"kind": "gat", "layer_heads": [8, 1], "width": 8})", "test: ");
  EXPECT_EQ(o.kind, "gat");
  EXPECT_EQ(o.heads_of(0), 8);
  EXPECT_EQ(o.heads_of(1), 1);
  EXPECT_EQ(o.width_of(1), 8);
  o.check("");
  const auto refused = [](const auto& change, const std::string& text) {
    GraphModelOptions options = motif("gkat");
    change(options);
    EXPECT_ERROR(options.check("here: "), "here: " + text);
    EXPECT_ERROR(make_graph_model(options), text);
  };
  refused([](auto& x) { x.kind = "gkt"; },
          "kind must be one of cheb, gat, gcn, gin, gkat, sage, sgc, transformer, transformer_conv, got gkt");
  refused([](auto& x) { x.mask = "walks"; }, "mask must be one of");
  refused([](auto& x) { x.layers = 0; }, "layers must be from 1 to 65536, got 0");
  refused([](auto& x) { x.layer_heads = {8}; }, "layer_heads must be one number for each of 2 layers, got 1");
  refused([](auto& x) { x.widths = {8, 1.5}; }, "widths must be whole numbers from 1");
  refused([](auto& x) { x.dropout = 1; }, "dropout must be in [0, 1), got 1");
  refused([](auto& x) { x.wire = 3; }, "wire must be 0 unless kind is transformer, got 3 for gkat");
  refused([](auto& x) { x.kind = "transformer"; }, "heads must be a divisor of width 9, got 2");
  refused([](auto& x) { x.resample = "always"; }, "resample must be never or epoch, got always");
  GraphModelOptions unset;
  EXPECT_ERROR(make_graph_model(unset), "graph model: features must be >= 1, got 0");
}

TEST(GraphModelOptions, NamesInTheirHelpAreTheRegisteredOnes) {
  GraphModelOptions o;
  for (const OptionField& field : option_fields(o)) {
    if (field.key == "kind") {
      for (const auto& name : graph_model_names()) EXPECT_NE(field.help.find(name), std::string::npos) << name;
    }
    if (field.key == "mask") {
      for (const auto& name : graph_mask_names()) EXPECT_NE(field.help.find(name), std::string::npos) << name;
    }
  }
}

}  // namespace
}  // namespace topomask::testing
