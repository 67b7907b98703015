#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

namespace topomask::torture {

/// The choices that make up one test case, each drawn by its name from one seed. A choice depends on the seed and on
/// its name only, so that fixing one leaves the others as they were: the reproducer of a shrunk case is the seed and
/// the choices that were lowered. Choice 0 is the simplest one everywhere.
class Draw {
 public:
  using Fixed = std::map<std::string, int64_t>;
  struct Choice {
    std::string name;
    int64_t value;
  };

  explicit Draw(uint64_t seed, Fixed fixed = {}) : seed_(seed), fixed_(std::move(fixed)) {}

  int64_t below(const std::string& name, int64_t count);  ///< 0 … count − 1; 0 where count < 1
  bool chance(const std::string& name, int64_t percent);  ///< recorded as 0 or 1
  template <class T>
  T pick(const std::string& name, std::initializer_list<T> values) {
    return values.begin()[below(name, static_cast<int64_t>(values.size()))];
  }

  // Numbers, which are not recorded: they follow from the seed and the name.
  double uniform(const std::string& name, double low, double high) const;
  at::Tensor normal(const std::string& name, at::IntArrayRef shape) const;  ///< float64
  at::Tensor uniform(const std::string& name, at::IntArrayRef shape, double low, double high) const;
  uint64_t number(const std::string& name) const;

  uint64_t seed() const { return seed_; }
  const std::vector<Choice>& taken() const { return taken_; }  ///< in the order in which they were asked for

  /// While it lives, names carry a prefix: two graphs in one case have choices of their own.
  class Scope {
   public:
    Scope(Draw& draw, const std::string& prefix) : draw_(draw), before_(draw.prefix_) { draw.prefix_ += prefix + "."; }
    ~Scope() { draw_.prefix_ = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Draw& draw_;
    std::string before_;
  };

 private:
  int64_t recorded(const std::string& name, int64_t drawn, int64_t count);

  uint64_t seed_;
  Fixed fixed_;
  std::string prefix_;
  std::vector<Choice> taken_;
};

/// The seed of case `index` of a run: below 2^48, to be readable.
uint64_t case_seed(uint64_t run_seed, uint64_t index);

}  // namespace topomask::torture
