#include "data/graphs/splits.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "data/random_order.h"

namespace topomask {
namespace {

/// Not the stream of images, which is 0.
constexpr uint32_t kGraphStream = 1;

/// The places of each label, shuffled.
std::map<int64_t, std::vector<int64_t>> shuffled_classes(const at::Tensor& labels, uint64_t seed) {
  const int64_t* label = labels.const_data_ptr<int64_t>();
  std::map<int64_t, std::vector<int64_t>> members;
  for (const int64_t i : random_order(labels.size(0), seed, kGraphStream, DrawFor::split)) {
    members[label[i]].push_back(i);
  }
  return members;
}

/// Divides the places of one class: the first `train`, then `validation` of them, then the rest.
void deal(const std::vector<int64_t>& members, int64_t train, int64_t validation, GraphSplit& split) {
  const auto first = members.begin(), second = first + train, third = second + validation;
  split.train.insert(split.train.end(), first, second);
  split.validation.insert(split.validation.end(), second, third);
  split.test.insert(split.test.end(), third, members.end());
}

struct DividedClass {
  std::vector<int64_t> members;
  int64_t train, validation, test;
};

/// Where the fraction of every class was rounded to 0, the largest training part gives one, unless it is its last.
void hold_one_out(std::vector<DividedClass>& classes, int64_t DividedClass::*part) {
  const auto largest = std::max_element(classes.begin(), classes.end(),
                                        [](const DividedClass& a, const DividedClass& b) { return a.train < b.train; });
  const bool empty = std::all_of(classes.begin(), classes.end(), [part](const auto& c) { return c.*part == 0; });
  if (!empty || largest == classes.end() || largest->train < 2) return;
  --largest->train;
  ++((*largest).*part);
}

GraphSplit sorted(GraphSplit split) {
  for (auto* part : {&split.train, &split.validation, &split.test}) std::sort(part->begin(), part->end());
  return split;
}

}  // namespace

GraphSplit split_by_class(const io::Origin& origin, const at::Tensor& labels, const std::vector<std::string>& classes,
                          const GraphDataOptions& options) {
  const int64_t wanted = options.train_per_class + options.validation_per_class;
  GraphSplit split;
  for (const auto& [label, members] : shuffled_classes(labels, options.split_seed)) {
    if (label < 0) continue;  // unlabelled: nothing to train or test on
    if (static_cast<int64_t>(members.size()) < wanted) {
      io::fail(origin, "class ", classes[static_cast<size_t>(label)], " has ", members.size(),
               " members, fewer than data.train_per_class + data.validation_per_class = ", wanted);
    }
    deal(members, options.train_per_class, options.validation_per_class, split);
  }
  return sorted(std::move(split));
}

GraphSplit split_by_fraction(const at::Tensor& labels, const GraphDataOptions& options) {
  std::vector<DividedClass> classes;
  for (const auto& [label, members] : shuffled_classes(labels, options.split_seed)) {
    const auto count = static_cast<int64_t>(members.size());
    const auto part = [&](double fraction) { return std::llround(fraction * static_cast<double>(count)); };
    const int64_t validation = std::min<int64_t>(part(options.validation_fraction), count);
    const int64_t test = std::min<int64_t>(part(options.test_fraction), count - validation);
    classes.push_back({members, count - validation - test, validation, test});
  }
  if (options.validation_fraction > 0) hold_one_out(classes, &DividedClass::validation);
  if (options.test_fraction > 0) hold_one_out(classes, &DividedClass::test);
  GraphSplit split;
  for (const DividedClass& c : classes) deal(c.members, c.train, c.validation, split);
  return sorted(std::move(split));
}

GivenSplit split_with_given(const at::Tensor& labels, const GraphDataOptions& options) {
  std::vector<int64_t> order = random_order(labels.size(0), options.split_seed, kGraphStream, DrawFor::split);
  const int64_t* label = labels.const_data_ptr<int64_t>();
  std::erase_if(order, [label](int64_t node) { return label[node] < 0; });
  const auto nodes = static_cast<double>(order.size());
  auto at = order.begin();
  const auto next = [&](double fraction) {
    const auto first = at;
    at += std::min<int64_t>(std::llround(fraction * nodes), order.end() - at);
    return std::vector<int64_t>(first, at);
  };
  GivenSplit result{.given = next(options.given_labels)};
  std::sort(result.given.begin(), result.given.end());
  result.split.validation = next(options.validation_fraction);
  result.split.test = next(options.test_fraction);
  result.split.train = next(1);
  result.split.by_node = true;
  result.split = sorted(std::move(result.split));
  return result;
}

at::Tensor given_label_features(const at::Tensor& labels, int64_t classes, const std::vector<int64_t>& given) {
  at::Tensor features = at::zeros({labels.size(0), classes});
  const int64_t* label = labels.const_data_ptr<int64_t>();
  float* out = features.mutable_data_ptr<float>();
  for (const int64_t node : given) out[node * classes + label[node]] = 1;
  return features;
}

}  // namespace topomask
