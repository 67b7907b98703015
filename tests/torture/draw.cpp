#include "torture/draw.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

namespace topomask::torture {
namespace {

/// splitmix64 (Steele et al. 2014): every bit of the result depends on every bit of x.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t Draw::number(const std::string& name) const {
  uint64_t state = mixed(seed_);
  for (const char c : prefix_ + name) state = mixed(state ^ static_cast<unsigned char>(c));
  return state;
}

int64_t Draw::recorded(const std::string& name, int64_t drawn, int64_t count) {
  const std::string full = prefix_ + name;
  if (const auto found = fixed_.find(full); found != fixed_.end()) {
    drawn = std::clamp<int64_t>(found->second, 0, std::max<int64_t>(0, count - 1));
  }
  taken_.push_back({full, drawn});
  return drawn;
}

int64_t Draw::below(const std::string& name, int64_t count) {
  const int64_t drawn = count > 1 ? static_cast<int64_t>(number(name) % static_cast<uint64_t>(count)) : 0;
  return recorded(name, drawn, count);
}

bool Draw::chance(const std::string& name, int64_t percent) {
  return recorded(name, static_cast<int64_t>(number(name) % 100) < percent ? 1 : 0, 2) == 1;
}

double Draw::uniform(const std::string& name, double low, double high) const {
  return low + (high - low) * static_cast<double>(number(name) >> 11) * 0x1p-53;
}

at::Tensor Draw::normal(const std::string& name, at::IntArrayRef shape) const {
  return at::randn(shape, at::detail::createCPUGenerator(number(name)), at::dtype(at::kDouble));
}

at::Tensor Draw::uniform(const std::string& name, at::IntArrayRef shape, double low, double high) const {
  return at::rand(shape, at::detail::createCPUGenerator(number(name)), at::dtype(at::kDouble)) * (high - low) + low;
}

uint64_t case_seed(uint64_t run_seed, uint64_t index) {
  return mixed(mixed(run_seed) + index) & ((uint64_t{1} << 48) - 1);
}

}  // namespace topomask::torture
